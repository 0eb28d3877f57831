package git

import (
	"context"
	"errors"
	"strings"

	"github.com/spritekit/lattice/spritekit/skill"
)

type addInput struct {
	Repo  string   `json:"repo"`
	Paths []string `json:"paths"`
	All   bool     `json:"all"`
	Trust bool     `json:"trust_repo_config"`
}

type stagedEntry struct {
	Path     string `json:"path"`
	OrigPath string `json:"orig_path,omitempty"`
	Index    string `json:"index"`
}

type addData struct {
	Staged    []stagedEntry `json:"staged"`
	Count     int           `json:"count"`
	Truncated bool          `json:"truncated"`
}

// Add is git.add.
func (f family) Add(ctx context.Context, c *skill.Call) (skill.Result, error) {
	var in addInput
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	if in.All == (len(in.Paths) > 0) {
		return skill.Result{}, skill.BadInput("/paths", "or all: exactly one of them says what to stage")
	}
	if err := checkPaths(in.Paths); err != nil {
		return skill.Result{}, err
	}
	r, err := f.open(ctx, c, in.Repo, in.Trust)
	if err != nil {
		return skill.Result{}, err
	}
	if err := r.stage(ctx, in.Paths); err != nil {
		return skill.Result{}, err
	}
	staged, err := r.staged(ctx)
	if err != nil {
		return skill.Result{}, err
	}
	data := addData{Staged: staged, Count: len(staged)}
	if data.Count > maxStatus {
		data.Staged, data.Truncated = staged[:maxStatus], true
	}
	return skill.Result{Data: data}, nil
}

// stage stages the paths, everything when there are none. The runtime's folder is never staged.
func (r *repo) stage(ctx context.Context, paths []string) error {
	if err := r.exclude(); err != nil {
		return err
	}
	_, err := r.git(ctx, append([]string{"add", "--all", "--"}, paths...)...)
	var f *failure
	if errors.As(err, &f) && strings.Contains(f.stderr, "did not match any files") {
		return notFound("not_found", "%v", f).WithHint("git.status shows the files that can be staged; name them relative to the top of the repository")
	}
	return explain(err, "add_failed")
}

// staged lists what differs between HEAD and the index, sorted by path as git does.
func (r *repo) staged(ctx context.Context) ([]stagedEntry, error) {
	out, err := r.read(ctx, "diff", "--cached", "--name-status", "-z", "--find-renames", "--no-ext-diff", "--no-textconv", "--")
	if err != nil {
		return nil, explain(err, "add_failed")
	}
	entries := []stagedEntry{}
	fields := split(out)
	for i := 0; i+1 < len(fields); i += 2 {
		e := stagedEntry{Index: fields[i][:min(1, len(fields[i]))], Path: fields[i+1]}
		if (e.Index == "R" || e.Index == "C") && i+2 < len(fields) {
			e.OrigPath, e.Path = fields[i+1], fields[i+2]
			i++
		}
		entries = append(entries, e)
	}
	return entries, nil
}
