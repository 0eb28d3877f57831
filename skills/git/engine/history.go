package engine

import (
	"encoding/json"
	"time"
)

// LogSpec asks for commits, newest first as git log has them.
type LogSpec struct {
	Revisions   []string // judged; A, ^A, A..B, A...B; none is HEAD
	Paths       []string // judged, literal: only commits that changed these
	Max         int      // at most so many commits, at least 1
	Skip        int
	Since       time.Time // committer dates; zero does not ask
	Until       time.Time
	Author      string // literal part of "Name <email>", any case
	Grep        string // literal part of the message, any case
	FirstParent bool
	Stats       bool
	Short       bool // leave Body out
}

// Log is a page of history.
type Log struct {
	Commits []Commit `json:"commits"` // never null
	More    bool     `json:"more"`    // there are commits beyond the last one
}

// Commit is one commit.
type Commit struct {
	Commit    string   `json:"commit"`
	Tree      string   `json:"tree"`
	Parents   []string `json:"parents"` // never null
	Author    Person   `json:"author"`
	Committer Person   `json:"committer"`
	Subject   string   `json:"subject"` // first paragraph in one line
	Body      string   `json:"body,omitempty"`
	Refs      []string `json:"refs"` // full names of the refs that point here, sorted; never null
	Stats     *Stats   `json:"stats,omitempty"`
}

// Person is an author or committer. Date is RFC 3339 in UTC, "" when the commit has no valid one.
type Person struct {
	Name  string `json:"name"`
	Email string `json:"email"`
	Date  string `json:"date"`
}

// Stats sums up a change.
type Stats struct {
	Files     int `json:"files"`
	Additions int `json:"additions"`
	Deletions int `json:"deletions"`
	uncounted bool
}

// The formats of a diff.
const (
	FormatPatch      = "patch"
	FormatStat       = "stat"
	FormatNameStatus = "name-status"
)

// DiffSpec compares From with To; "" for To is the work tree, or the index with Staged; "" for From is the
// index, or HEAD with Staged.
type DiffSpec struct {
	From, To string // judged revisions
	Staged   bool
	Paths    []string
	Context  int    // lines around a change
	Format   string // FormatPatch, FormatStat, FormatNameStatus
	Renames  bool
	Binary   bool  // put binary files into the patch, so that it can be applied
	MaxBytes int64 // of the patch; a longer one is cut after the last file that fits, or after a line if no file fits
	Max      int   // files that are listed, 0 is no limit
}

// Diff is a comparison.
type Diff struct {
	Files     []DiffFile `json:"files"` // sorted by path; never null
	Totals    Stats      `json:"totals"`
	Patch     []byte     `json:"-"` // raw bytes: the verb decides how they travel
	Truncated bool       `json:"truncated"`
}

// DiffFile is one file that differs.
type DiffFile struct {
	Path      string `json:"path"`
	OldPath   string `json:"old_path,omitempty"`
	Status    string `json:"status"` // A, M, D, T, R, C, U
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Binary    bool   `json:"binary,omitempty"`
	uncounted bool
}

// Uncount marks lines as not counted, so that JSON shows no zeros for them.
func (d *Diff) Uncount() {
	for i := range d.Files {
		d.Files[i].uncounted = true
	}
	d.Totals.uncounted = true
}

// MarshalJSON leaves out numbers of lines that were not counted.
func (f DiffFile) MarshalJSON() ([]byte, error) {
	type counted DiffFile
	if !f.uncounted {
		return json.Marshal(counted(f))
	}
	return json.Marshal(struct {
		Path    string `json:"path"`
		OldPath string `json:"old_path,omitempty"`
		Status  string `json:"status"`
	}{f.Path, f.OldPath, f.Status})
}

// MarshalJSON leaves out numbers of lines that were not counted.
func (s Stats) MarshalJSON() ([]byte, error) {
	type counted Stats
	if !s.uncounted {
		return json.Marshal(counted(s))
	}
	return json.Marshal(map[string]int{"files": s.Files})
}

// ShowSpec asks for one object.
type ShowSpec struct {
	Ref      string // judged revision
	Path     string // with it: the file or folder Path of the commit Ref
	Format   string // of a commit's diff: FormatPatch, FormatStat, FormatNameStatus
	Context  int
	MaxBytes int64 // of patch or content
}

// Shown is one object: exactly one of Commit, Tree and Content is set; a tag shows its object.
type Shown struct {
	Object
	Commit    *Commit     `json:"commit,omitempty"`
	Diff      *Diff       `json:"diff,omitempty"` // of Commit against its first parent
	Tree      []TreeEntry `json:"tree,omitempty"`
	Content   []byte      `json:"-"`
	Size      int64       `json:"size"`
	Truncated bool        `json:"truncated"`
}

// TreeEntry is one entry of a tree.
type TreeEntry struct {
	Path string `json:"path"`
	Mode string `json:"mode"` // six octal digits
	Type string `json:"type"`
	ID   string `json:"id"`
}

// MergeBaseSpec asks for the common ancestors of commits.
type MergeBaseSpec struct {
	Commits []string // judged revisions, two or more
	All     bool     // every best base
}

// MergeBase is the answer. Without anything in common Bases is empty.
type MergeBase struct {
	Bases      []string `json:"bases"`       // never null
	IsAncestor bool     `json:"is_ancestor"` // the first is an ancestor of the second, or the same
}
