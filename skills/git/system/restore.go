package system

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Restore puts files back and lists those that it changed.
func (r *repo) Restore(ctx context.Context, spec engine.RestoreSpec) (engine.Restored, error) {
	answer := engine.Restored{Restored: []string{}}
	paths, env := r.without(spec.Paths)
	if spec.Worktree && spec.Source != "" {
		if err := r.keepUntracked(ctx, spec.Source, paths, env); err != nil {
			return answer, err
		}
	}
	var err error
	if answer.Restored, err = r.toRestore(ctx, spec, paths, env); err != nil {
		return answer, err
	}
	args := []string{"restore", "--quiet", "--no-recurse-submodules"}
	if spec.Staged {
		args = append(args, "--staged")
	}
	if spec.Worktree {
		args = append(args, "--worktree")
	}
	if spec.Source != "" {
		args = append(args, "--source="+spec.Source)
	}
	_, err = r.in(ctx, command{args: append(append(args, "--"), paths...), env: env})
	if f := (*failure)(nil); errors.As(err, &f) {
		switch {
		case strings.Contains(f.stderr, "did not match any file"):
			return answer, engine.NoSuchPath("%v", f)
		case strings.Contains(f.stderr, "is unmerged"):
			return answer, engine.Conflict(nil, "%v", f).WithHint(`name a source, such as "HEAD", or resolve the conflict`)
		}
	}
	return answer, explainRevision(err, "restore_failed")
}

// toRestore lists what differs from where it will be restored from, sorted.
func (r *repo) toRestore(ctx context.Context, spec engine.RestoreSpec, paths, env []string) ([]string, error) {
	source := spec.Source
	if source == "" && spec.Staged {
		source = "HEAD"
	}
	changed := []string{}
	for _, staged := range []bool{true, false} {
		if staged && !spec.Staged || !staged && !spec.Worktree {
			continue
		}
		args := append(diffSettings(), "diff", "--name-only", "-z")
		args = append(args, plainDiff(false)...)
		if staged {
			args = append(args, "--cached")
		}
		if source != "" {
			args = append(args, source)
		}
		out, err := r.in(ctx, command{args: append(append(args, "--"), paths...), env: env, reading: true})
		if err != nil {
			return nil, explainRevision(err, "restore_failed")
		}
		changed = append(changed, split(out)...)
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// keepUntracked refuses when files that nothing has stored lie where the source's will be.
func (r *repo) keepUntracked(ctx context.Context, source string, paths, env []string) error {
	out, err := r.in(ctx, command{args: append([]string{"ls-files", "--others", "-z", "--"}, paths...), env: env, reading: true})
	if err != nil {
		return explain(err, "restore_failed")
	}
	others := split(out)
	if len(others) == 0 {
		return nil
	}
	// A tree is listed whole: ls-tree knows no exclusions, and fewer of the letters that pathspecs do.
	out, err = r.read(ctx, "ls-tree", "-r", "-z", "--name-only", "--full-tree", source, "--")
	if err != nil {
		return explainRevision(err, "restore_failed")
	}
	tracked := map[string]bool{}
	for _, name := range split(out) {
		tracked[name] = true
	}
	if lost := slices.DeleteFunc(others, func(name string) bool { return !tracked[name] }); len(lost) > 0 {
		return engine.WouldOverwrite(lost, "untracked files would be overwritten: %s", strings.Join(lost[:min(5, len(lost))], ", "))
	}
	return nil
}

// without makes pathspecs of paths that never reach the runtime's folder, and the environment that they need. Only where
// the work tree is the workspace is there such a folder, and there a .gitignore may have said that it is not ignored.
// Each path is marked as literal by itself: told so for all of them, git stash takes its own :/ for a name.
func (r *repo) without(paths []string) (specs, env []string) {
	for _, p := range paths {
		specs = append(specs, ":(literal)"+p)
	}
	if r.at.Name == "." {
		if len(paths) == 0 {
			specs = []string{"."}
		}
		specs = append(specs, ":(exclude,literal)"+protocol.Dir)
	}
	return specs, []string{"GIT_LITERAL_PATHSPECS=0"}
}
