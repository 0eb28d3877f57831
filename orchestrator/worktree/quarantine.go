package worktree

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// quarantine is a scratch repository with a sprite's objects that borrows the objects of its target. Every git process
// that reads it has resource limits.
type quarantine struct {
	git    *Git
	dir    string
	format string // sha1 | sha256
	limits *gitexec.Limits
}

func (q quarantine) gitCommand(args ...string) gitexec.Command {
	return gitexec.Command{Dir: q.dir, Limits: q.limits, Args: args}
}

func (q quarantine) run(ctx context.Context, args ...string) (gitexec.Result, error) {
	return q.git.proc.Run(ctx, q.gitCommand(args...))
}

func (q quarantine) mustRun(ctx context.Context, args ...string) (gitexec.Result, error) {
	return q.git.proc.MustRun(ctx, q.gitCommand(args...))
}

// isAncestor reports whether old is in the history of young. An old that does not exist is not.
func (q quarantine) isAncestor(ctx context.Context, old, young string) (bool, error) {
	r, err := q.run(ctx, "merge-base", "--is-ancestor", old, young)
	return err == nil && r.Exit == 0, err
}
