package engine

import (
	"cmp"
	"slices"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// How a status shows untracked files.
const (
	UntrackedNormal = "normal" // a folder without tracked files once, as "name/"
	UntrackedAll    = "all"    // each file
	UntrackedNo     = "no"
)

// StatusSpec asks for a status. Paths are judged, relative to the work tree and taken literally; none is everything.
type StatusSpec struct {
	Paths     []string
	Untracked string
	Ignored   bool // list ignored files and folders, too
	Renames   bool // pair removed and added files that look alike
	Max       int  // entries that are kept; the counts go on. 0 is no limit
}

// Status is the state of a repository.
type Status struct {
	Branch    string        `json:"branch"` // "" when detached
	Head      string        `json:"head"`   // "" before the first commit
	Detached  bool          `json:"detached"`
	Upstream  string        `json:"upstream"` // short: origin/main
	Ahead     int           `json:"ahead"`
	Behind    int           `json:"behind"`
	State     string        `json:"state"` // clean, dirty, or the operation in progress: merging, rebasing …
	Clean     bool          `json:"clean"`
	Entries   []StatusEntry `json:"entries"` // sorted by path; never null
	Counts    StatusCounts  `json:"counts"`
	Truncated bool          `json:"truncated"`
}

// StatusEntry is one file; Index and Worktree are the letters of porcelain v2: "." unchanged, "?" untracked, "!" ignored.
type StatusEntry struct {
	Path     string `json:"path"`
	OrigPath string `json:"orig_path,omitempty"`
	Index    string `json:"index"`
	Worktree string `json:"worktree"`
	Type     string `json:"type"`               // file, symlink, submodule
	Conflict string `json:"conflict,omitempty"` // UU, AA …
}

// StatusCounts counts files; a file that is staged and changed again counts twice.
type StatusCounts struct {
	Staged      int `json:"staged"`
	Changed     int `json:"changed"`
	Conflicting int `json:"conflicting"`
	Untracked   int `json:"untracked"`
	Ignored     int `json:"ignored"`
}

// Take counts an entry and keeps it as long as there are fewer than limit (0: always).
func (s *Status) Take(e StatusEntry, limit int) {
	s.Counts.addEntry(e)
	if limit > 0 && len(s.Entries) >= limit {
		s.Truncated = true
		return
	}
	s.Entries = append(s.Entries, e)
}

// addEntry counts an entry.
func (c *StatusCounts) addEntry(e StatusEntry) {
	switch {
	case e.Index == "?":
		c.Untracked++
		return
	case e.Index == "!":
		c.Ignored++
		return
	case e.Conflict != "":
		c.Conflicting++
		return
	case e.Index != ".":
		c.Staged++
	}
	if e.Worktree != "." {
		c.Changed++
	}
}

// untrackedRank sorts untracked and ignored entries after tracked ones of the same path.
func (e StatusEntry) untrackedRank() int {
	if e.Index == "?" || e.Index == "!" {
		return 1
	}
	return 0
}

// Settle sorts the entries and derives State and Clean; operation is the one in progress, or "".
func (s *Status) Settle(operation string) {
	if s.Entries == nil {
		s.Entries = []StatusEntry{}
	}
	slices.SortStableFunc(s.Entries, func(a, b StatusEntry) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.untrackedRank(), b.untrackedRank())) // a deleted file may be there again
	})
	counts := s.Counts
	counts.Ignored = 0
	s.Clean = counts == StatusCounts{}
	if s.State = operation; s.State == "" {
		if s.State = "dirty"; s.Clean {
			s.State = "clean"
		}
	}
}

// Operations pairs files of a git dir with the operation that is in progress if they exist; the first match wins.
func Operations() [][2]string {
	return [][2]string{
		{"rebase-merge", "rebasing"}, {"rebase-apply/applying", "applying"}, {"rebase-apply", "rebasing"}, {"MERGE_HEAD", "merging"},
		{"CHERRY_PICK_HEAD", "cherry-picking"}, {"REVERT_HEAD", "reverting"}, {"BISECT_LOG", "bisecting"},
	}
}

// Hidden reports whether an untracked or ignored path belongs to the runtime and is never shown: .lattice without the files of a
// board in a repository whose work tree is the workspace itself (name "."), and anywhere a temporary file that a killed writer left.
func Hidden(name, path string) bool {
	return name == "." && protocol.IsRuntime(path) || workspace.IsTemp(path)
}

// Excludes are the lines that .git/info/exclude of every repository gets: engines that stage by themselves honour them
// even where the file lacks them. The files of a board can be staged.
func Excludes() []string {
	lines := []string{"/" + protocol.Dir + "/*"}
	for _, entry := range protocol.BoardEntries {
		lines = append(lines, "!/"+protocol.Dir+"/"+entry)
	}
	return append(lines, workspace.TempPattern)
}

// AddSpec selects the files to stage: exactly one of Paths, All (new, changed and removed files) and Update (changed and removed
// files that are tracked). Excludes() is never staged, not even with Force.
type AddSpec struct {
	Paths  []string // judged, literal
	All    bool
	Update bool
	Force  bool // also ignored files, if a path names them
	DryRun bool // leave the index as it is
	Max    int  // entries that are kept, 0 is no limit
}

// Added lists the differences between HEAD and the index after staging, sorted. With DryRun they are those that staging
// would cause.
type Added struct {
	Staged    []StagedEntry `json:"staged"`  // never null
	Removed   []string      `json:"removed"` // paths among them that are staged as deleted; never null
	Count     int           `json:"count"`
	Truncated bool          `json:"truncated"`
}

// StagedEntry is one staged file: A, M, D, T; no renames.
type StagedEntry struct {
	Path  string `json:"path"`
	Index string `json:"index"`
}
