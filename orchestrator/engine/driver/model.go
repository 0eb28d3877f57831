package driver

import (
	"context"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Model sends one request to a model and does not judge the answer. It retries when a server is busy, but not because of an
// answer. A repeated request costs money and does no other harm. A reply with a failure kind is an outcome; an error means
// "could not find out" and leaves the command pending.
type Model interface {
	Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error)
}

// ask sends the request of e to the model.
func (e effect) ask(ctx context.Context) ([]lattice.Fact, error) {
	if e.r.deps.Model == nil {
		return nil, &lattice.Refusal{Fault: protocol.Fault{
			Code: "no_models", Message: "the flow asks models, and none are known here", Hint: "name them in the settings, as [models.SMALL_EXEC]",
		}}
	}
	q := *e.command.Model
	reply, err := e.r.deps.Model.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return []lattice.Fact{q.Answered(e.command.ID, reply)}, nil
}

// recount journals that questions are about to be asked once more: their answers, if there were any, are lost.
func (d *drive) recount() error {
	if d.yields || len(d.ending) > 0 {
		return nil // nothing is begun now
	}
	for _, c := range slices.Clone(d.r.state.Pending) {
		issued := d.r.issued[c.ID]
		if c.Kind != lattice.DoModel || d.running[c.ID] != nil || !issued.sent {
			continue
		}
		issued.sent = false
		d.r.issued[c.ID] = issued
		if err := d.record(lattice.ModelAskedAgain{CommandID: c.ID, Again: c.Again + 1}); err != nil {
			return err
		}
	}
	return nil
}
