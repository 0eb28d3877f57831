package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Watch returns a function that records the state of the repository in a folder. That function returns another one, which
// lists the files that were committed, changed, added or restored since, sorted. A folder that is not a repository has no
// changes.
func Watch(r *proc.Reaper, native engine.Engine) func(context.Context, *skill.Call, string) (func(context.Context) ([]string, error), error) {
	f := family{reaper: r, native: native}
	return func(ctx context.Context, c *skill.Call, dir string) (func(context.Context) ([]string, error), error) {
		before, err := f.takeSnapshot(ctx, c, dir)
		if fault.HasCode(err, "not_a_repository", "unsupported") {
			return func(context.Context) ([]string, error) { return nil, nil }, nil
		}
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) ([]string, error) { return f.changedSince(ctx, c, dir, before) }, nil
	}
}

// snapshot is the commit at HEAD, and the state of each file that differs from it.
type snapshot struct {
	head  string
	dirty map[string]string
}

// takeSnapshot opens the repository each time, because programs may have changed its configuration.
func (f family) takeSnapshot(ctx context.Context, c *skill.Call, dir string) (snapshot, error) {
	ctx, r, err := f.openRepo(ctx, c, on{Repo: dir})
	if err != nil {
		return snapshot{}, err
	}
	defer r.close()
	return r.takeSnapshot(ctx)
}

func (r *repo) takeSnapshot(ctx context.Context) (snapshot, error) {
	status, err := r.Status(ctx, engine.StatusSpec{Untracked: engine.UntrackedAll})
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{head: status.Head, dirty: map[string]string{}}
	for _, e := range status.Entries {
		look := "absent"
		if info, err := os.Lstat(filepath.Join(r.at.Dir, e.Path)); err == nil {
			look = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		s.dirty[e.Path] = look
	}
	return s, nil
}

// changedSince lists the files that changed after a snapshot.
func (f family) changedSince(ctx context.Context, c *skill.Call, dir string, before snapshot) ([]string, error) {
	ctx, r, err := f.openRepo(ctx, c, on{Repo: dir})
	if err != nil {
		return nil, err
	}
	defer r.close()
	after, err := r.takeSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	var changed []string
	for name, look := range after.dirty {
		if before.dirty[name] != look {
			changed = append(changed, name)
		}
	}
	for name := range before.dirty {
		if _, still := after.dirty[name]; !still {
			changed = append(changed, name)
		}
	}
	if before.head != "" && after.head != "" && before.head != after.head {
		diff, err := r.Diff(ctx, engine.DiffSpec{From: before.head, To: after.head, Format: engine.FormatNameStatus})
		if err != nil {
			return nil, err
		}
		for _, file := range diff.Files {
			changed = append(changed, file.Path)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}
