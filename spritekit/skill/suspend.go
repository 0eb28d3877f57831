package skill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// checkpointTimeout is what hosts give themselves for one.
const checkpointTimeout = 60 * time.Second

// pause is the runtime's side of Call.Suspend: ACTION_REQUEST, journal, checkpoint, WAITING, in this order. The journal
// is on disk before the checkpoint, so that the call inside the checkpoint knows that it waits. When w names a
// checkpoint already, the call says again what it said before. A nested call takes no checkpoint (nested.go).
func (r *runner) pause(ctx context.Context, w protocol.Waiting, request *protocol.ActionRequest) error {
	if r.waiting != nil {
		return errors.New("suspend: the call waits already")
	}
	if w.Reason == "" {
		return errors.New("suspend: a reason is required")
	}
	if err := checkExpected(w.ExpectedInputs); err != nil {
		return err
	}
	if request != nil {
		blocking := *request
		blocking.Blocking = true
		request = &blocking
	}
	if r.nested() {
		return r.ask(ctx, w, request)
	}
	if request != nil {
		if err := r.out.emit(*request); err != nil {
			return err
		}
	}
	record := journal.Record{
		State: journal.Suspending, Waiting: &w, Request: request,
		PayloadSHA256: r.journal.Last().PayloadSHA256, // the answer to the pause before this one is no answer to this one
	}
	if w.CheckpointID == "" {
		if err := r.journal.Append(record, true); err != nil {
			return err
		}
		id, err := r.checkpoint(ctx, w.Reason)
		if err != nil {
			return err
		}
		named := w
		named.CheckpointID = id
		record.Waiting = &named
	}
	// In this timeline the id is known from here on; the checkpoint's own copy of the journal has none.
	if err := r.journal.Append(record, true); err != nil {
		return err
	}
	if err := r.out.emit(*record.Waiting); err != nil {
		return err
	}
	r.waiting = record.Waiting
	return nil
}

func checkExpected(expected map[string]string) error {
	for name, t := range expected {
		if !protocol.IsInputType(t) {
			return fmt.Errorf("suspend: expected input %q has the type %q, which the protocol does not know", name, t)
		}
	}
	return nil
}

// checkpoint takes the checkpoint that a pause needs. A sprite without socket leaves it to the orchestrator.
func (r *runner) checkpoint(ctx context.Context, reason string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	id, err := checkpoint.Client{Socket: r.env.Socket}.Create(ctx, r.skill.Name+" waits: "+reason)
	switch {
	case errors.Is(err, checkpoint.ErrUnavailable):
		return checkpoint.Pending, nil
	case err != nil:
		e := fault.Failed("checkpoint_failed", "%v", err)
		e.Retryable = true
		return "", e.WithHint("a call may only wait on a checkpoint; look at the sprite's host, then try again")
	}
	return id, nil
}

// postMortemTimeout keeps an ERROR from waiting long for its checkpoint, which it can do without.
const postMortemTimeout = 10 * time.Second

// WithPostMortem tries a checkpoint through the sprite's socket and names it in the details of e, for a look at what
// went wrong (DESIGN 22). It returns e as it was where that cannot be done.
func WithPostMortem(ctx context.Context, socket string, e protocol.Error) protocol.Error {
	details := map[string]json.RawMessage{}
	if len(e.Details) > 0 && json.Unmarshal(e.Details, &details) != nil || details == nil || details["checkpoint_id"] != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, postMortemTimeout)
	defer cancel()
	id, err := checkpoint.Client{Socket: socket}.Create(ctx, "before ERROR: "+e.Message[:min(len(e.Message), 200)])
	if err != nil {
		return e // strongly recommended, not mandatory ("Checkpoint Contract")
	}
	quoted, err := json.Marshal(id)
	if err != nil {
		return e
	}
	details["checkpoint_id"] = quoted
	if raw, err := json.Marshal(details); err == nil {
		e.Details = raw
	}
	return e
}
