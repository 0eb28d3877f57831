package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Recover takes the run back after a loss of power, and returns when its files are there. With nil it goes on where it was
// cut off in that. It waits until the run is not driven.
func (r *Runner) Recover(ctx context.Context, lost *lattice.PowerLost) error {
	select {
	case r.own <- struct{}{}:
		defer func() { <-r.own }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if lost != nil {
		if err := r.appendFacts(ctx, nil, *lost); err != nil {
			return err
		}
	}
	for r.state.Recovering != nil && !r.state.Status.Ended() { // sprite by sprite
		c, ok := r.state.FindCommand(r.state.Recovering.Command)
		if !ok {
			return fmt.Errorf("run %s recovers without a command", r.state.RunID)
		}
		facts, err := effect{r: r, command: c}.performCommand(ctx)
		if refusal, ok := errors.AsType[*lattice.Refusal](err); ok {
			facts, err = []lattice.Fact{lattice.CommandFailed{CommandID: c.ID, Fault: refusal.Fault}}, nil
		}
		if err != nil {
			return fmt.Errorf("restore run %s after a loss of power: %w", r.state.RunID, err)
		}
		if err := r.appendFacts(ctx, nil, facts...); err != nil {
			return err
		}
	}
	return nil
}

// Torn is the fault of a run whose files may be torn, with no durable checkpoint to go back to.
func Torn(sprite string) *lattice.Refusal {
	return &lattice.Refusal{Fault: protocol.Fault{
		Code:    "files_torn",
		Message: "the machine or its disk was restarted before sprite " + sprite + " had a durable checkpoint, and its files may be torn",
		Hint:    "look at them with lattice sprite console " + sprite + ", restore a checkpoint, and start the run again",
	}}
}
