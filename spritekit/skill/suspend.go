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
	"github.com/spritekit/lattice/spritekit/text"
)

// checkpointTimeout is the timeout of hosts for a checkpoint.
const checkpointTimeout = 60 * time.Second

// suspension is the state of a call that waits.
type suspension struct {
	id      string // of the call; that of a nested call is derived (nested.go)
	waiting *protocol.Waiting
}

// suspend is the runtime's side of Call.Suspend: ACTION_REQUEST, journal, checkpoint, WAITING, in this order. The journal
// is on disk before the checkpoint, so that the call inside the checkpoint knows that it waits. If wait already names a
// checkpoint, the call repeats its earlier WAITING. A nested call takes no checkpoint (nested.go).
func (w *attempt) suspend(ctx context.Context, wait protocol.Waiting, request *protocol.ActionRequest) error {
	if w.suspended != nil {
		return errors.New("suspend: the call waits already")
	}
	if wait.Reason == "" {
		return errors.New("suspend: a reason is required")
	}
	if err := checkExpected(wait.ExpectedInputs); err != nil {
		return err
	}
	if request != nil {
		blocking := *request
		blocking.Blocking = true
		request = &blocking
	}
	if w.isNested() {
		return w.suspendNested(ctx, wait, request)
	}
	if request != nil {
		if err := w.out.emitPayload(*request); err != nil {
			return err
		}
	}
	record := journal.Record{
		State: journal.Suspending, Waiting: &wait, Request: request,
		PayloadSHA256: w.journal.Last().PayloadSHA256, // the answer to the previous pause does not answer this one
	}
	if wait.CheckpointID == "" {
		if err := w.journal.Append(record, true); err != nil {
			return err
		}
		id, err := w.createCheckpoint(ctx, wait.Reason)
		if err != nil {
			return err
		}
		named := wait
		named.CheckpointID = id
		record.Waiting = &named
	}
	// From here on the journal has the id; the copy of the journal inside the checkpoint does not.
	if err := w.journal.Append(record, true); err != nil {
		return err
	}
	if err := w.out.emitPayload(*record.Waiting); err != nil {
		return err
	}
	w.suspended = &suspension{w.id, record.Waiting}
	return nil
}

func checkExpected(expected map[string]string) error {
	for name, t := range expected {
		if !protocol.IsInputType(t) {
			return fmt.Errorf("suspend: expected input %q has the type %q, which is not a type of the protocol", name, t)
		}
	}
	return nil
}

// createCheckpoint takes the checkpoint for a pause. In a sprite without a socket the orchestrator takes it later.
func (r *runner) createCheckpoint(ctx context.Context, reason string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	id, err := checkpoint.Client{Socket: r.env.Socket}.Create(ctx, r.skill.Name+" waits: "+reason)
	switch {
	case errors.Is(err, checkpoint.ErrUnavailable):
		return checkpoint.Pending, nil
	case err != nil:
		e := fault.Failed("checkpoint_failed", "%v", err)
		e.Retryable = true
		return "", e.WithHint("a call can wait only with a checkpoint; look at the sprite's host, then try again")
	}
	return id, nil
}

// postMortemTimeout limits how long an ERROR waits for its optional checkpoint.
const postMortemTimeout = 10 * time.Second

// WithPostMortem takes a checkpoint through the sprite's socket, for later analysis, and adds its id to the details of e
// (DESIGN 22). If it cannot, it returns e unchanged.
func WithPostMortem(ctx context.Context, socket string, e protocol.Error) protocol.Error {
	details := map[string]json.RawMessage{}
	if len(e.Details) > 0 && json.Unmarshal(e.Details, &details) != nil || details == nil || details["checkpoint_id"] != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, postMortemTimeout)
	defer cancel()
	id, err := checkpoint.Client{Socket: socket}.Create(ctx, "before ERROR: "+text.Cut(e.Message, 200))
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
