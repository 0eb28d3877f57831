package govern

import (
	"context"
	"errors"
	"time"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Witness is an actor that records each action that it performs, before and after, each repository of an action by itself.
type Witness struct {
	*action.Fulfiller
	Ledger *Ledger
}

// Do implements the engine's Actor.
func (w Witness) Do(ctx context.Context, a lattice.Action) ([]byte, error) {
	return w.DoParts(ctx, a, w.doPart)
}

func (w Witness) doPart(ctx context.Context, a lattice.Action) ([]byte, error) {
	body := actionBody{Action: a.Name, Of: a.Key, Binding: bindingOf(a), Digest: bindingDigest(a)}
	now := time.Now()
	begun, err := w.Ledger.Add(ctx, audit.Entry{Kind: audit.ActionBegun, Subject: audit.Run(a.RunID), Key: "begun:" + a.RunID + ":" + a.Key + ":" + body.Digest}, body, store.Any)
	if err != nil {
		return nil, err
	}
	if begun.At.Before(now) {
		a.Begun = begun.At
	}
	out, err := w.Fulfiller.Do(ctx, a)
	kind, key := audit.ActionPerformed, "performed:"+a.RunID+":"+a.Key+":"+body.Digest
	var refusal *lattice.Refusal
	switch {
	case errors.As(err, &refusal):
		kind, key, body.Reason = audit.ActionFailed, "", refusal.Fault.Code+": "+refusal.Fault.Message
	case err != nil:
		return nil, err
	default:
		body.Result = out
	}
	if recordErr := w.Ledger.Record(ctx, kind, audit.Run(a.RunID), key, body); recordErr != nil {
		return nil, recordErr // it is performed again, which finds it done
	}
	if err == nil && a.Name == protocol.ActionOpenPR {
		if err := w.Ledger.linkPull(ctx, a, out); err != nil {
			return nil, err
		}
	}
	return out, err
}
