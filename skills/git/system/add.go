package system

import (
	"context"
	"errors"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Add is git add, then a diff of the index with HEAD.
func (r *repo) Add(ctx context.Context, spec engine.AddSpec) (engine.Added, error) {
	if spec.DryRun {
		return r.wouldAdd(ctx, spec)
	}
	if err := r.stage(ctx, spec); err != nil {
		return engine.Added{}, err
	}
	return r.staged(ctx, spec.Max)
}

// stage runs git add. The runtime's own files are excluded by .git/info/exclude, which --force would override.
func (r *repo) stage(ctx context.Context, spec engine.AddSpec) error {
	args := []string{"add"}
	switch {
	case spec.Update:
		args = append(args, "--update")
	default:
		args = append(args, "--all")
	}
	if spec.Force {
		args = append(args, "--force")
	}
	_, err := r.git(ctx, append(append(args, "--"), spec.Paths...)...)
	return addFailed(err)
}

func addFailed(err error) error {
	var f *failure
	switch {
	case !errors.As(err, &f):
		return err
	case strings.Contains(f.stderr, "did not match any files"):
		return engine.NoSuchPath("%v", f)
	case strings.Contains(f.stderr, "paths are ignored by"):
		return engine.Ignored("%v", f)
	}
	return explain(err, "add_failed")
}

// staged lists what differs between HEAD and the index, sorted by path as git does.
func (r *repo) staged(ctx context.Context, limit int) (engine.Added, error) {
	added := engine.Added{Staged: []engine.StagedEntry{}, Removed: []string{}}
	letter := ""
	out := &records{end: 0, each: func(record []byte) error {
		if letter == "" {
			letter = string(record[:min(1, len(record))])
			return nil
		}
		e := engine.StagedEntry{Path: string(record), Index: letter}
		letter = ""
		take(&added, e, limit)
		return nil
	}}
	_, err := r.in(ctx, command{
		args:    []string{"diff", "--cached", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--"},
		reading: true, stdout: out,
	})
	return added, explain(out.finish(err), "add_failed")
}

func take(added *engine.Added, e engine.StagedEntry, limit int) {
	added.Count++
	if limit > 0 && added.Count > limit {
		added.Truncated = true
		return
	}
	added.Staged = append(added.Staged, e)
	if e.Index == "D" {
		added.Removed = append(added.Removed, e.Path)
	}
}

// wouldAdd is git add --dry-run, whose lines are "add 'path'" and "remove 'path'".
func (r *repo) wouldAdd(ctx context.Context, spec engine.AddSpec) (engine.Added, error) {
	return engine.Added{}, r.stage(ctx, spec)
}
