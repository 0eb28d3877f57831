package inbox

import (
	"context"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// refusal is the body of an entry about deliveries that were refused before they were read.
type refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// recordRefusal records that a delivery was refused. Anyone can send one, so there is one entry for each reason and hour.
func (in *Inbox) recordRefusal(ctx context.Context, name string, reason error) error {
	p := fault.As(reason)
	if p == nil {
		return nil
	}
	key := "refused:" + name + ":" + p.Code + ":" + time.Now().UTC().Format("2006-01-02T15")
	in.mu.Lock()
	known := in.refused[key]
	if len(in.refused) > 100 {
		clear(in.refused) // of former hours; the log has their keys
	}
	in.refused[key] = true
	in.mu.Unlock()
	if known {
		return nil
	}
	ctx = caller.With(ctx, audit.Who{Name: "forge:" + name, UID: -1})
	_, err := in.facts.AddFact(ctx, audit.Entry{Kind: audit.Delivery, Subject: "forge-refused:" + name, Key: key}, refusal{p.Code, p.Message}, store.Any)
	return err
}
