package git

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// maxStatus bounds the entries of a status; the counts go on.
const maxStatus = 2000

type statusInput struct {
	Repo      string   `json:"repo"`
	Paths     []string `json:"paths"`
	Untracked string   `json:"untracked"`
	Trust     bool     `json:"trust_repo_config"`
}

type statusData struct {
	Repo      string        `json:"repo"`
	Branch    string        `json:"branch"`
	Head      string        `json:"head"`
	Detached  bool          `json:"detached"`
	Upstream  string        `json:"upstream"`
	Ahead     int           `json:"ahead"`
	Behind    int           `json:"behind"`
	State     string        `json:"state"`
	Clean     bool          `json:"clean"`
	Entries   []statusEntry `json:"entries"`
	Counts    statusCounts  `json:"counts"`
	Truncated bool          `json:"truncated"`
}

// statusEntry is one file; Index and Worktree are the letters of porcelain v2, "." for unchanged, "?" for untracked.
type statusEntry struct {
	Path     string `json:"path"`
	OrigPath string `json:"orig_path,omitempty"`
	Index    string `json:"index"`
	Worktree string `json:"worktree"`
	Type     string `json:"type"`               // file, symlink, submodule
	Conflict string `json:"conflict,omitempty"` // UU, AA …
}

type statusCounts struct {
	Staged      int `json:"staged"`
	Changed     int `json:"changed"`
	Conflicting int `json:"conflicting"`
	Untracked   int `json:"untracked"`
}

// Status is git.status.
func (f family) Status(ctx context.Context, c *skill.Call) (skill.Result, error) {
	var in statusInput
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	in.Untracked = cmp.Or(in.Untracked, "normal")
	if !slices.Contains([]string{"normal", "all", "no"}, in.Untracked) {
		return skill.Result{}, skill.BadInput("/untracked", "%q is none of normal, all, no", in.Untracked)
	}
	if err := checkPaths(in.Paths); err != nil {
		return skill.Result{}, err
	}
	r, err := f.open(ctx, c, in.Repo, in.Trust)
	if err != nil {
		return skill.Result{}, err
	}
	args := []string{"status", "--porcelain=v2", "-z", "--branch", "--untracked-files=" + in.Untracked, "--"}
	out, err := r.read(ctx, append(args, in.Paths...)...)
	if err != nil {
		return skill.Result{}, explain(err, "status_failed")
	}
	data, err := parseStatus(out, r.rel == ".")
	if err != nil {
		return skill.Result{}, err
	}
	data.Repo = r.rel
	if state := r.operation(); state != "" {
		data.State = state
	}
	return skill.Result{Data: data}, nil
}

// parseStatus reads git status --porcelain=v2 -z --branch. In a repository that is the workspace itself the runtime's
// folder is no untracked file, nor is a temporary file that a killed writer left anywhere. A record without all of its
// fields is refused: it would name a wrong path.
func parseStatus(out []byte, isWorkspace bool) (statusData, error) {
	data := statusData{Entries: []statusEntry{}}
	records := split(out)
	for i := 0; i < len(records); i++ {
		kind, rest, _ := strings.Cut(records[i], " ")
		var e statusEntry
		ok := true
		switch kind {
		case "#":
			data.header(rest)
			continue
		case "?":
			if isWorkspace && (rest == protocol.Dir || strings.HasPrefix(rest, protocol.Dir+"/")) || workspace.IsTemp(rest) {
				continue
			}
			e, ok = statusEntry{Path: rest, Index: "?", Worktree: "?", Type: "file"}, rest != ""
		case "1", "u":
			e, ok = trackedEntry(kind, rest)
		case "2":
			if e, ok = trackedEntry(kind, rest); !ok {
				break
			}
			if i++; i >= len(records) || records[i] == "" {
				return data, fmt.Errorf("read git status: %q is renamed from nowhere", e.Path)
			}
			e.OrigPath = records[i]
		default:
			continue // git may add kinds; "!" is not asked for
		}
		if !ok {
			return data, fmt.Errorf("read git status: unexpected record %q", records[i])
		}
		data.count(e)
		if len(data.Entries) == maxStatus {
			data.Truncated = true
			continue
		}
		data.Entries = append(data.Entries, e)
	}
	slices.SortFunc(data.Entries, func(a, b statusEntry) int { return cmp.Compare(a.Path, b.Path) })
	data.Clean = data.Counts == statusCounts{}
	if data.State = "dirty"; data.Clean {
		data.State = "clean"
	}
	return data, nil
}

// trackedEntry reads "XY sub modes… ids… path" of a changed file (kind 1), with a score before the path of a renamed
// one (2), with one more mode and id of a conflicting one (u). The path keeps whatever spaces are in it.
func trackedEntry(kind, rest string) (statusEntry, bool) {
	count, worktreeMode := 8, 4
	switch kind {
	case "2":
		count = 9
	case "u":
		count, worktreeMode = 10, 5
	}
	fields := strings.SplitN(rest, " ", count)
	if len(fields) < count || len(fields[0]) != 2 || fields[count-1] == "" {
		return statusEntry{}, false
	}
	e := statusEntry{
		Path: fields[count-1], Index: fields[0][:1], Worktree: fields[0][1:], Type: fileType(fields[1], fields[worktreeMode]),
	}
	if kind == "u" {
		e.Conflict = fields[0]
	}
	return e, true
}

func (d *statusData) header(line string) {
	key, value, _ := strings.Cut(line, " ")
	switch key {
	case "branch.oid":
		if value != "(initial)" {
			d.Head = value
		}
	case "branch.head":
		if d.Detached = value == "(detached)"; !d.Detached {
			d.Branch = value
		}
	case "branch.upstream":
		d.Upstream = value
	case "branch.ab":
		ahead, behind, _ := strings.Cut(value, " ")
		// Malformed numbers cannot come from git; 0 is what an unknown distance shows as.
		d.Ahead, _ = strconv.Atoi(strings.TrimPrefix(ahead, "+"))
		d.Behind, _ = strconv.Atoi(strings.TrimPrefix(behind, "-"))
	}
}

func (d *statusData) count(e statusEntry) {
	switch {
	case e.Index == "?":
		d.Counts.Untracked++
		return
	case e.Conflict != "":
		d.Counts.Conflicting++
		return
	case e.Index != ".":
		d.Counts.Staged++
	}
	if e.Worktree != "." {
		d.Counts.Changed++
	}
}

func fileType(sub, mode string) string {
	switch {
	case strings.HasPrefix(sub, "S"):
		return "submodule"
	case mode == "120000":
		return "symlink"
	}
	return "file"
}

// operation names what the repository is in the middle of, "" when nothing.
func (r *repo) operation() string {
	for _, o := range []struct{ file, state string }{
		{"rebase-merge", "rebasing"}, {"rebase-apply/applying", "applying"}, {"rebase-apply", "rebasing"}, {"MERGE_HEAD", "merging"},
		{"CHERRY_PICK_HEAD", "cherry-picking"}, {"REVERT_HEAD", "reverting"}, {"BISECT_LOG", "bisecting"},
	} {
		if _, err := os.Lstat(filepath.Join(r.gitDir, o.file)); err == nil {
			return o.state
		}
	}
	return ""
}

// checkPaths refuses paths that leave the repository or reach into .git.
func checkPaths(paths []string) error {
	for i, p := range paths {
		first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(p)), "/")
		if p == "" || strings.ContainsRune(p, 0) || !filepath.IsLocal(p) || strings.EqualFold(first, ".git") {
			return skill.Unsafe("unsafe_path", "/paths/%d %q is no path inside the repository", i, p).
				WithHint("name files relative to the top of the repository")
		}
	}
	return nil
}
