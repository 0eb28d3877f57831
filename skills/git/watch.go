package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Watch returns a function that notes the state of the repository in a folder. What that returns in turn lists the
// files that were committed, changed, added or put back since, sorted. A folder that is no repository has no changes.
func Watch(r *proc.Reaper) func(context.Context, *skill.Call, string) (func(context.Context) ([]string, error), error) {
	f := family{reaper: r}
	return func(ctx context.Context, c *skill.Call, dir string) (func(context.Context) ([]string, error), error) {
		repo, err := f.open(ctx, c, dir, false)
		if failed := (*skill.Error)(nil); errors.As(err, &failed) && (failed.Code == "not_a_repository" || failed.Code == "unsupported") {
			return func(context.Context) ([]string, error) { return nil, nil }, nil
		}
		if err != nil {
			return nil, err
		}
		before, err := repo.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) ([]string, error) {
			// What ran in between may have written anything into the repository's configuration.
			if err := repo.checkConfig(ctx, executable, false); err != nil {
				return nil, err
			}
			return repo.since(ctx, before)
		}, nil
	}
}

// snapshot is the commit, and for each file that differs from it what it looks like.
type snapshot struct {
	head  string
	dirty map[string]string
}

func (r *repo) snapshot(ctx context.Context) (snapshot, error) {
	s := snapshot{dirty: map[string]string{}}
	var err error
	if s.head, err = r.resolve(ctx, "HEAD"); err != nil {
		return s, err
	}
	out, err := r.read(ctx, "status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--")
	if err != nil {
		return s, explain(err, "status_failed")
	}
	status, err := parseStatus(out, r.rel == ".")
	if err != nil {
		return s, err
	}
	for _, e := range status.Entries {
		look := "absent"
		if info, err := os.Lstat(filepath.Join(r.dir, e.Path)); err == nil {
			look = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		s.dirty[e.Path] = look
	}
	return s, nil
}

func (r *repo) since(ctx context.Context, before snapshot) ([]string, error) {
	after, err := r.snapshot(ctx)
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
		out, err := r.read(ctx, "diff-tree", "-r", "--name-only", "-z", "--no-renames", before.head, after.head, "--")
		if err != nil {
			return nil, explain(err, "status_failed")
		}
		changed = append(changed, split(out)...)
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}
