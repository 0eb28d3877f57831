package leader

import (
	"context"
	"maps"
	"sync"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/spritekit/redact"
)

// Text that people type is kept in the journal and the audit log, and is shown, so it passes the redactor as the output of calls
// does: a person may paste a secret that an agent has.

// Decide makes a decision, without the secrets of the run in its comment and inputs.
func (l *Leader) Decide(ctx context.Context, id string, d api.DecideRequest) (api.DecideReply, error) {
	run, err := l.Records.Resolve(id)
	if err != nil {
		return api.DecideReply{}, err
	}
	return l.Decisions.Decide(ctx, run, redactDecision(l.agents.listKnown(run), d))
}

// DecideAction makes a decision about an action, without the secrets of the run in its comment.
func (l *Leader) DecideAction(ctx context.Context, id string, d api.ActionDecision) (api.NotedAction, error) {
	run, err := l.Records.Resolve(id)
	if err != nil {
		return api.NotedAction{}, err
	}
	d.Comments = l.agents.listKnown(run).Text(d.Comments)
	return l.Notes.DecideAction(ctx, run, d)
}

// DecideIntent makes a decision about an intent, without any secret that the leader knows in its comment.
func (l *Leader) DecideIntent(ctx context.Context, id string, d api.IntentDecision) (intent.State, error) {
	d.Reason = l.agents.all.secrets().Text(d.Reason)
	return l.Pipeline.DecideIntent(ctx, id, d)
}

// DecideProposal makes a decision about a change of the environment, without any secret that the leader knows in its comment.
func (l *Leader) DecideProposal(ctx context.Context, id string, d api.ProposalDecision) (proposal.State, error) {
	d.Comments = l.agents.all.secrets().Text(d.Comments)
	return l.Register.DecideProposal(ctx, id, d)
}

func redactDecision(s *redact.Secrets, d api.DecideRequest) api.DecideRequest {
	if !s.Any() {
		return d
	}
	d.Comments, d.Inputs = s.Text(d.Comments), maps.Clone(d.Inputs)
	for name, value := range d.Inputs {
		d.Inputs[name] = s.Text(value)
	}
	if len(d.Typed) > 0 {
		d.Typed = s.JSON(d.Typed)
	}
	return d
}

// everKnown are the secrets that the leader has known since it began, which its own log must not hold. It is safe for concurrent
// use, and asks no store: it is called while a line is logged.
type everKnown struct {
	mu     sync.Mutex
	values map[string]bool // guarded by mu, as below
	made   *redact.Secrets // of values
}

func (k *everKnown) add(values ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.values)
	for _, v := range values {
		if k.values == nil {
			k.values = map[string]bool{}
		}
		k.values[v] = true
	}
	if len(k.values) > before {
		all := make([]string, 0, len(k.values))
		for v := range k.values {
			all = append(all, v)
		}
		k.made = redact.New(all...)
	}
}

func (k *everKnown) secrets() *redact.Secrets {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made
}
