// Package intents carries intents out: it appends their facts to the audit log and starts their runs. Start with Pipeline.
// Package intent decides the transitions of an intent, and package policy whether it needs people. A fact is appended
// before its effect; each append requires that no other fact came between, so that of several processes or requests one
// succeeds and the others look again.
package intents

import (
	"context"
	"errors"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Executor starts and shows runs. Start is idempotent by the key of the request.
type Executor interface {
	Start(ctx context.Context, r api.RunRequest) (api.RunView, error)
	Run(ctx context.Context, id string) (api.RunView, error)
	Cancel(ctx context.Context, id, by string) (api.RunView, error)
}

// Pipeline creates, decides and carries out intents (api.Intents).
type Pipeline struct {
	Facts    *govern.Ledger
	Executor Executor
	// BaseOf returns the commit that a run of a repository begins with, and the policy that holds there.
	BaseOf func(ctx context.Context, repo string) (commit string, p policy.Policy, err error)
	// Changed, if not nil, is called after each change of an intent with a subject that people have to approve.
	Changed func(subject string)
}

// appendFact appends a fact. If another one came between, it returns the state that the facts tell now, and no error.
func (x *Pipeline) appendFact(ctx context.Context, s intent.State, f intent.Fact) (intent.State, error) {
	if _, err := intent.Apply(s, audit.Entry{Who: personOf(ctx)}, f); err != nil {
		return s, fault.Busy("intent_state", "%s is %s: %v", s.ID, s.Status, err).WithHint("lattice intent show %s", s.ID)
	}
	_, err := x.Facts.AddFact(ctx, audit.Entry{Kind: audit.Intent, Subject: audit.IntentOf(s.ID)}, f, s.Last)
	if err != nil && !errors.Is(err, lattice.ErrConflict) {
		return s, err
	}
	next, err := x.loadIntent(s.ID)
	if next.Decision == lattice.Ask && next.Subject != "" && x.Changed != nil {
		x.Changed(next.Subject)
	}
	return next, err
}

// loadIntent returns the state of an intent.
func (x *Pipeline) loadIntent(id string) (intent.State, error) {
	var entries []audit.Entry
	if err := x.Facts.Store.Audit(audit.IntentOf(id), 0, func(e audit.Entry) error { entries = append(entries, e); return nil }); err != nil {
		return intent.State{}, problem.StoreProblem(err)
	}
	return intent.Fold(entries)
}

// findIntent returns the intent that a person means: an id, a unique prefix, or "" for the newest.
func (x *Pipeline) findIntent(id string) (intent.State, error) {
	ids, err := x.Facts.Store.Intents("", 1)
	if id != "" {
		ids, err = x.Facts.Store.FindIntents(id)
	}
	switch {
	case err != nil:
		return intent.State{}, problem.StoreProblem(err)
	case len(ids) == 0:
		return intent.State{}, fault.NotFound("intent_not_found", "there is no intent %s", id).WithHint("lattice intent ls")
	case len(ids) > 1 && ids[0] != id:
		return intent.State{}, fault.BadInput("intent_ambiguous", "the id fits more than one intent").WithHint("write more of the id; lattice intent ls lists them")
	}
	return x.loadIntent(ids[0])
}
