package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// place holds the flags that say where the board is and who acts.
type place struct {
	env         *setup.Env
	root, actor string
}

// open opens the board and checks who acts.
func (p *place) open() (*board.Board, string, error) {
	actor := cmp.Or(p.actor, p.env.Getenv("LATTICE_ACTOR"), "human:"+p.env.User)
	if err := board.CheckActor(actor); err != nil {
		return nil, "", cli.UsageErrorf("%w", err)
	}
	b, err := board.OpenNearest(cmp.Or(p.root, p.env.Getenv("LATTICE_ROOT")))
	if err != nil {
		return nil, "", err
	}
	b.Warn = func(text string) { fmt.Fprintf(cli.Sanitize(p.env.Err), "lattice: %s\n", text) }
	return b, actor, nil
}

// withBoard opens the board for one command.
func (p *place) withBoard(do func(b *board.Board, actor string) error) (err error) {
	b, actor, err := p.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return do(b, actor)
}

// runHooks runs the hooks of events if the user trusts them.
func (p *place) runHooks(ctx context.Context, b *board.Board, events []board.Event) error {
	return b.RunTrustedHooks(ctx, p.env.Home, events, p.env.Environ, cli.Sanitize(p.env.Err))
}

// printChanged runs the hooks of events that were written, and prints the task.
func (p *place) printChanged(ctx context.Context, b *board.Board, t *board.Task, events []board.Event, sentence string) error {
	if err := p.runHooks(ctx, b, events); err != nil {
		return err
	}
	if p.env.JSON {
		return p.env.PrintJSON(t)
	}
	_, err := fmt.Fprintf(cli.Sanitize(p.env.Out), "%s\n", sentence)
	return err
}
