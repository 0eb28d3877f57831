package system

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// Restore puts files back and lists those that it changed.
func (r *repo) Restore(ctx context.Context, spec engine.RestoreSpec) (engine.Restored, error) {
	answer := engine.Restored{Restored: []string{}}
	paths, env := r.pathspecs(spec.Paths)
	re := restoring{r, spec, paths, env}
	if spec.Worktree && spec.Source != "" {
		if err := re.keepUntracked(ctx); err != nil {
			return answer, err
		}
	}
	var err error
	if answer.Restored, err = re.listChanged(ctx); err != nil {
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
		args = append(args, "--source="+exact(spec.Source))
	}
	_, err = r.Run(ctx, gitcmd.Command{Args: append(append(args, "--"), paths...), Env: env})
	if f := (*gitcmd.Failure)(nil); errors.As(err, &f) {
		switch {
		case f.Says("did not match any file"):
			return answer, engine.NoSuchPath("%v", f)
		case f.Says("is unmerged"):
			return answer, engine.Conflict(nil, "%v", f).WithHint(`name a source, such as "HEAD", or resolve the conflict`)
		}
	}
	return answer, explainRevision(err, "restore_failed")
}

// restoring is one restore with its pathspecs and their environment.
type restoring struct {
	repo       *repo
	spec       engine.RestoreSpec
	paths, env []string
}

// listChanged lists the files that differ from the source of the restore, sorted.
func (re restoring) listChanged(ctx context.Context) ([]string, error) {
	spec := re.spec
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
		out, err := re.repo.Run(ctx, gitcmd.Command{Args: append(append(args, "--"), re.paths...), Env: re.env, Reading: true})
		if err != nil {
			return nil, explainRevision(err, "restore_failed")
		}
		changed = append(changed, gitcmd.Split(out)...)
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// keepUntracked refuses a restore that would overwrite untracked files.
func (re restoring) keepUntracked(ctx context.Context) error {
	out, err := re.repo.Run(ctx, gitcmd.Command{Args: append([]string{"ls-files", "--others", "-z", "--"}, re.paths...), Env: re.env, Reading: true})
	if err != nil {
		return gitcmd.Explain(err, "restore_failed")
	}
	others := gitcmd.Split(out)
	if len(others) == 0 {
		return nil
	}
	// This lists the whole tree: ls-tree supports neither exclusions nor all magic of pathspecs.
	out, err = re.repo.Read(ctx, "ls-tree", "-r", "-z", "--name-only", "--full-tree", re.spec.Source, "--")
	if err != nil {
		return explainRevision(err, "restore_failed")
	}
	tracked := map[string]bool{}
	for _, name := range gitcmd.Split(out) {
		tracked[name] = true
	}
	if lost := slices.DeleteFunc(others, func(name string) bool { return !tracked[name] }); len(lost) > 0 {
		return engine.WouldOverwrite(lost, "untracked files would be overwritten: %s", strings.Join(lost[:min(5, len(lost))], ", "))
	}
	return nil
}

// pathspecs returns pathspecs for paths that exclude the runtime's entries, and the environment that they need. The entries
// exist only if the work tree is the workspace, and a .gitignore may re-include them. Each path is marked as literal by
// itself, because with GIT_LITERAL_PATHSPECS git stash takes its own :/ for a name.
func (r *repo) pathspecs(paths []string) (specs, env []string) {
	for _, p := range paths {
		specs = append(specs, ":(literal)"+p)
	}
	if r.at.Name == "." {
		if len(paths) == 0 {
			specs = []string{"."}
		}
		specs = append(specs, r.excludeRuntime()...)
	}
	return specs, []string{"GIT_LITERAL_PATHSPECS=0"}
}
