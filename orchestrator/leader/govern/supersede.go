package govern

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
)

// supersede rejects the pushes that a run asked for before the entry seq, that wait for a person, and that are to a branch to which
// a pushes as well: a person who approved one of them would approve commits that the run has left behind.
func (l *Ledger) supersede(ctx context.Context, a lattice.Action, seq uint64) error {
	to, older := action.Destinations(a), map[string]actionBody{}
	if len(to) == 0 {
		return nil
	}
	err := l.eachAction(a.RunID, func(e audit.Entry, b actionBody) {
		switch {
		case e.Seq >= seq || b.Of == a.Key:
		case e.Kind == audit.ActionRequested && b.Decision == lattice.Ask && slices.ContainsFunc(recordedDestinations(b.Binding), func(d string) bool { return slices.Contains(to, d) }):
			older[b.Of] = b
		case e.Kind == audit.ActionRejected || e.Kind == audit.ActionPerformed:
			delete(older, b.Of)
		}
	}, audit.ActionRequested, audit.ActionRejected, audit.ActionPerformed)
	if err != nil {
		return problem.StoreProblem(err)
	}
	for of, b := range older {
		body := actionBody{Action: b.Action, Of: of, Binding: b.Binding, Digest: b.Digest, Reason: "superseded: the run asks for a newer push to the same branch", SupersededBy: a.Key}
		if err := l.Record(ctx, audit.ActionRejected, audit.Run(a.RunID), fmt.Sprintf("superseded:%s:%s:%d", a.RunID, of, seq), body); err != nil {
			return err
		}
	}
	return nil
}

// IsSuperseded reports whether a newer push rejected an action, and the action was not asked for again since.
func (l *Ledger) IsSuperseded(a lattice.Action) (superseded bool, err error) {
	err = l.eachAction(a.RunID, func(e audit.Entry, b actionBody) {
		switch {
		case b.Of != a.Key:
		case e.Kind == audit.ActionRequested:
			superseded = false
		case e.Kind == audit.ActionRejected && b.SupersededBy != "":
			superseded = true
		}
	}, audit.ActionRequested, audit.ActionRejected)
	if err != nil {
		return false, problem.StoreProblem(err)
	}
	return superseded, nil
}

// recordedDestinations returns the branches that an action with a recorded binding pushes to; see bindingOf.
func recordedDestinations(binding json.RawMessage) (all []string) {
	type bound struct {
		Remote string `json:"remote"`
		Branch string `json:"branch"`
	}
	var parts []bound
	var one bound
	switch {
	case json.Unmarshal(binding, &parts) == nil:
	case json.Unmarshal(binding, &one) == nil:
		parts = []bound{one}
	}
	for _, p := range parts {
		if p.Remote != "" {
			all = append(all, action.Destination(p.Branch, p.Remote))
		}
	}
	return all
}
