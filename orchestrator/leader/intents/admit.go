package intents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/fault"
)

// window is the length of time in which the intents of one person or token are counted.
const window = time.Hour

const pageSize = 64 // ids that are read at a time

// checkRate refuses a new intent of a person or token who created as many within the last hour as the policy allows. id is the
// new intent, or "" before it is recorded; those that were recorded after it do not count, so that of several at once as many
// as allowed remain.
func (x *Pipeline) checkRate(ctx context.Context, rules policy.Policy, kind, id string) error {
	limit, rule := rules.Rate()
	if limit <= 0 {
		return nil
	}
	who, now, n := govern.PersonOf(ctx), time.Now(), 0
	for other, err := range x.listBefore(id) {
		if err != nil {
			return err
		}
		s, err := x.loadIntent(other)
		if err != nil {
			return err
		}
		if now.Sub(s.CreatedAt) >= window {
			break
		}
		if s.ProposedBy == nil || !policy.IsSame(*s.ProposedBy, who) {
			continue
		}
		if n++; n < limit {
			continue
		}
		reason := fmt.Sprintf("%s created %d intents within an hour; the policy allows %d", who.Name, n, limit)
		// One entry a minute says enough, and a flood of requests does not fill the log.
		key := fmt.Sprintf("refused:%d:%s:%d", who.UID, who.Name, now.Unix()/60)
		if err := x.Facts.Record(ctx, audit.IntentRefused, "intents", key, map[string]any{"kind": kind, "reason": reason, "rule": rule.String()}); err != nil {
			return err
		}
		p := fault.Limit("too_many_intents", "%s", reason).WithHint("wait for %v; the rule is %s", (window - now.Sub(s.CreatedAt)).Round(time.Second), rule)
		p.Fault.Retryable = true
		return p
	}
	return nil
}

// listBefore yields the ids of the intents that were recorded before id, the newest first; of all if id is "". Its cost depends on
// the number that is read, not on the number that there are.
func (x *Pipeline) listBefore(id string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for {
			ids, err := x.Facts.Store.Intents(id, pageSize)
			if err != nil {
				yield("", problem.StoreProblem(err))
				return
			}
			for _, id = range ids {
				if !yield(id, nil) {
					return
				}
			}
			if len(ids) < pageSize {
				return
			}
		}
	}
}

// newestFact is the body of an entry that names the newest intent about a subject.
type newestFact struct {
	Intent string `json:"intent_id"`
}

// aboutOf returns the subject of the entries about intents of one kind, subject and repository; "" if there is no subject.
func aboutOf(s intent.State) string {
	if s.Subject == "" {
		return ""
	}
	return "about:" + lattice.DerivedKey("about", s.Kind, s.Subject, policy.RepositoryName(s.Plan.Repo))
}

// findNewest returns the newest intent about the subject of s, and the intents about it before, in the order of their creation.
func (x *Pipeline) findNewest(s intent.State) (id string, older []string, last uint64, err error) {
	if aboutOf(s) == "" {
		return "", nil, 0, nil
	}
	err = x.Facts.Store.Audit(aboutOf(s), 0, func(e audit.Entry) error {
		var f newestFact
		if err := json.Unmarshal(e.Body, &f); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		if id != "" {
			older = append(older, id)
		}
		id, last = f.Intent, e.Seq
		return nil
	})
	if err != nil {
		err = problem.StoreProblem(err)
	}
	return id, older, last, err
}

// makeNewest makes a new intent the newest about its subject, and cancels the older ones that have no run. One that has a run
// goes on until the new one starts: a request alone stops no work.
func (x *Pipeline) makeNewest(ctx context.Context, s intent.State, rules policy.Policy) error {
	if aboutOf(s) == "" || rules.Older(s.Kind) != policy.CancelOlder {
		return nil
	}
	for {
		_, _, last, err := x.findNewest(s)
		if err != nil {
			return err
		}
		_, err = x.Facts.AddFact(ctx, audit.Entry{Kind: audit.IntentNewest, Subject: aboutOf(s), Key: "newest:" + s.ID}, newestFact{s.ID}, last)
		if errors.Is(err, lattice.ErrConflict) {
			continue // another one was faster
		}
		if err != nil {
			return err
		}
		return x.cancelOlder(ctx, s, func(o intent.State) bool { return o.Run == "" })
	}
}

// cancelOlder cancels the intents about the subject of s that are older than s, have not ended and match.
func (x *Pipeline) cancelOlder(ctx context.Context, s intent.State, match func(intent.State) bool) error {
	newest, older, _, err := x.findNewest(s)
	if err != nil || newest != s.ID {
		return err
	}
	for _, id := range older {
		o, err := x.loadIntent(id)
		if err != nil {
			return err
		}
		if o, err = x.recordOutcome(ctx, o); err != nil {
			return err
		}
		if !o.Status.Ended() && match(o) {
			if _, err := x.cancelIntent(ctx, o, supersededBy(s.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// supersededBy returns the decision that cancels an older intent.
func supersededBy(id string) api.IntentDecision {
	return api.IntentDecision{Decision: "cancel", Reason: "superseded by " + id}
}

// refuseSuperseded cancels an intent that waits for approval if a newer one is about the same subject, and refuses the
// approval. It has an effect where a crash kept the newer one from canceling it.
func (x *Pipeline) refuseSuperseded(ctx context.Context, s intent.State) error {
	newest, older, _, err := x.findNewest(s)
	if err != nil || !slices.Contains(older, s.ID) {
		return err
	}
	if _, err := x.cancelIntent(ctx, s, supersededBy(newest)); err != nil {
		return err
	}
	return fault.Busy("superseded", "%s is superseded by %s, which is newer and about the same subject", s.ID, newest).WithHint("lattice intent show %s", newest)
}
