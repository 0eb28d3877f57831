package intents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
)

// asksFact is the body of an entry that names an intent about a subject.
type asksFact struct {
	Intent string `json:"intent_id"`
}

// asksOf returns the subject of the entries about intents that ask about a subject. Code hosts ignore the case of names.
func asksOf(subject string) string { return "asks:" + strings.ToLower(subject) }

// noteAsks records that an intent asks people about its subject, before it does, so that GatedIntents finds it.
func (x *Pipeline) noteAsks(ctx context.Context, s intent.State, d lattice.Verdict) error {
	if d != lattice.Ask || s.Subject == "" {
		return nil
	}
	return x.Facts.Record(ctx, audit.IntentAsks, asksOf(s.Subject), "asks:"+s.ID, asksFact{s.ID})
}

// maxAsks bounds the intents about one subject that are looked at, the newest ones.
const maxAsks = 50

// GatedIntents returns the intents about a subject that people have to approve, the oldest first.
func (x *Pipeline) GatedIntents(_ context.Context, subject string) ([]intent.State, error) {
	var ids []string
	err := x.Facts.Store.Audit(asksOf(subject), 0, func(e audit.Entry) error {
		var f asksFact
		if err := json.Unmarshal(e.Body, &f); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		ids = append(ids, f.Intent)
		return nil
	})
	if err != nil {
		return nil, problem.StoreProblem(err)
	}
	var gated []intent.State
	for _, id := range ids[max(0, len(ids)-maxAsks):] {
		s, err := x.loadIntent(id)
		if err != nil {
			return nil, err
		}
		if s.Status == intent.Gated {
			gated = append(gated, s)
		}
	}
	return gated, nil
}
