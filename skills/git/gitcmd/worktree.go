package gitcmd

import (
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
)

// WorkTree runs git in one repository.
type WorkTree struct {
	Git *Git
	At  engine.Location
}

// Change runs a command that may change the repository.
func (w WorkTree) Change(ctx context.Context, args ...string) ([]byte, error) {
	return w.Run(ctx, Command{Args: args})
}

// Read runs a command that takes no locks.
func (w WorkTree) Read(ctx context.Context, args ...string) ([]byte, error) {
	return w.Run(ctx, Command{Args: args, Reading: true})
}

// Run runs a command. Paths among its arguments are literal unless its environment says otherwise.
func (w WorkTree) Run(ctx context.Context, cmd Command) ([]byte, error) {
	cmd.dir = w.At.Dir
	cmd.Env = append([]string{"GIT_DIR=" + w.At.GitDir, "GIT_WORK_TREE=" + w.At.Dir, "GIT_LITERAL_PATHSPECS=1"}, cmd.Env...)
	return w.Git.Run(ctx, cmd)
}

// Scan runs a command and calls each for every record of its output. The record is valid until each returns.
func (w WorkTree) Scan(ctx context.Context, cmd Command, end byte, each func(record []byte) error) error {
	out := &Records{End: end, Each: each}
	cmd.Stdout = out
	_, err := w.Run(ctx, cmd)
	return out.Finish(err)
}
