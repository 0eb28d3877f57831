// Package govern records the decisions about actions and their effects outside of sprites, and checks the authority of people who decide. Start
// with Ledger; Approvals judges people, Witness records the effects of actions. It never decides whether an action is
// allowed; package policy does.
package govern

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Ledger writes and reads the audit log (api.Audit).
type Ledger struct {
	Store *store.Store
	// Recorded, if not nil, is called when an entry is on disk.
	Recorded func()
}

func (l *Ledger) append(ctx context.Context, e audit.Entry, after uint64) (stored audit.Entry, added bool, err error) {
	stored, added, err = l.Store.AppendAudit(context.WithoutCancel(ctx), e, after)
	if added && l.Recorded != nil {
		l.Recorded()
	}
	return stored, added, err
}

// AuditEntries yields entries of the audit log. A reading of the whole log checks it: the first entry that was changed, or is
// missing, gets an entry of its own.
func (l *Ledger) AuditEntries(ctx context.Context, subject string, after uint64, yield func(audit.Entry) error) error {
	var seq uint64
	var prev string
	var broken error
	err := l.Store.Audit(subject, after, func(e audit.Entry) error {
		if subject == "" && after == 0 && broken == nil {
			seq++
			broken = e.Verify(seq, prev)
			prev = e.Sum
		}
		return yield(e)
	})
	if broken != nil {
		body := map[string]any{"entry": seq, "reason": broken.Error()}
		if failed := l.Record(ctx, audit.Broken, "audit", fmt.Sprintf("broken:%d", seq), body); !errors.Is(failed, store.ErrReadOnly) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return problem.StoreProblem(err)
	}
	return nil
}

// CountAppended returns how many entries of each kind and type were appended since this process leads.
func (l *Ledger) CountAppended() []lattice.EntryCount { return l.Store.CountAppended() }

// CountReads returns how many keys of the store were looked up or passed since this process leads.
func (l *Ledger) CountReads() uint64 { return l.Store.CountReads() }

// LastEntry returns the last entry of a subject.
func (l *Ledger) LastEntry(subject string) (audit.Entry, bool, error) {
	e, ok, err := l.Store.LastAudit(subject)
	return e, ok, problem.StoreProblem(err)
}

// ReadBodies returns the bodies of the entries of a subject.
func ReadBodies[T any](l *Ledger, subject string) (all []T, err error) {
	err = l.AuditEntries(context.Background(), subject, 0, func(e audit.Entry) error {
		var body T
		if err := json.Unmarshal(e.Body, &body); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		all = append(all, body)
		return nil
	})
	return all, err
}

// Record appends an entry, with the person of ctx. Of several with one key only the first is appended.
func (l *Ledger) Record(ctx context.Context, kind audit.Kind, subject, key string, body any) error {
	_, err := l.Add(ctx, audit.Entry{Kind: kind, Subject: subject, Key: key}, body, store.Any)
	return err
}

// Add appends an entry behind the entry after of its subject. It returns the entry, or an earlier one with its key.
func (l *Ledger) Add(ctx context.Context, e audit.Entry, body any, after uint64) (audit.Entry, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return e, fmt.Errorf("encode audit entry: %w", err)
	}
	e.At, e.Who, e.Body = time.Now(), caller.Of(ctx), audit.Redact(raw)
	e, _, err = l.append(ctx, e, after)
	if err != nil {
		return e, problem.StoreProblem(fmt.Errorf("record %s of %s: %w", e.Kind, e.Subject, err))
	}
	return e, nil
}

// AddFact appends a fact of the control plane behind the entry after of its subject, or returns an earlier entry with its
// key. Facts are read again, so nothing is left out of them.
func (l *Ledger) AddFact(ctx context.Context, e audit.Entry, fact any, after uint64) (audit.Entry, error) {
	raw, err := json.Marshal(fact)
	if err != nil {
		return e, fmt.Errorf("encode audit entry: %w", err)
	}
	who := PersonOf(ctx)
	e.At, e.Who, e.Body = time.Now(), &who, raw
	e, _, err = l.append(ctx, e, after)
	if err != nil && !errors.Is(err, lattice.ErrConflict) {
		err = problem.StoreProblem(fmt.Errorf("record %s of %s: %w", e.Kind, e.Subject, err))
	}
	return e, err
}

// RecordRun records who started a run, before the run exists.
func (l *Ledger) RecordRun(ctx context.Context, id, flow, repo, from string) error {
	return l.Record(ctx, audit.RunStarted, audit.Run(id), "started:"+id, map[string]any{"flow": flow, "repo": repo, "from": from})
}

// actionBody is the body of entries about an action.
type actionBody struct {
	Action     string          `json:"action"`
	Of         string          `json:"of"` // the key of the action; a member key would be redacted
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Binding    json.RawMessage `json:"binding,omitempty"`
	Digest     string          `json:"binding_sha256,omitempty"`
	Decision   lattice.Verdict `json:"decision,omitempty"`
	Class      string          `json:"class,omitempty"`
	Rule       string          `json:"rule,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Comments   string          `json:"comments,omitempty"`
	Wait       string          `json:"wait_id,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	// SupersededBy is the key of the newer push that rejected this one.
	SupersededBy string `json:"superseded_by,omitempty"`
}

// RecordJudged records the verdict about an action that a sprite asked for, and that a push supersedes older ones.
func (l *Ledger) RecordJudged(ctx context.Context, j action.Judged) error {
	a := j.Action
	body := actionBody{
		Action: a.Name, Of: a.Key, Parameters: a.Parameters, Binding: bindingOf(a), Digest: bindingDigest(a), Decision: j.Decision,
		Class: string(j.Verdict.Class), Rule: j.Verdict.Rule.String(), Reason: j.Reason,
	}
	e, err := l.Add(ctx, audit.Entry{Kind: audit.ActionRequested, Subject: audit.Run(a.RunID), Key: "requested:" + a.RunID + ":" + a.CallID + ":" + a.Key}, body, store.Any)
	if err != nil || j.Decision == lattice.Deny {
		return err
	}
	return l.supersede(ctx, a, e.Seq)
}

// CountRequests counts the other actions of a name that a run asked for and that were not denied, each of their parts.
func (l *Ledger) CountRequests(run, name, key string) (int, error) {
	n, seen := 0, map[string]bool{}
	err := l.eachAction(run, func(_ audit.Entry, b actionBody) {
		if b.Action == name && b.Of != key && b.Decision != lattice.Deny && !seen[b.Of] {
			seen[b.Of] = true
			n += len(action.Parts(lattice.Action{Name: name, Parameters: b.Parameters}))
		}
	}, audit.ActionRequested)
	return n, err
}

// peopleOf returns who requested the run of an action, the approvals of the action with a digest, and the number of the last entry that
// it read.
func (l *Ledger) peopleOf(a lattice.Action, digest string) (requesters []audit.Who, approvals []audit.Entry, last uint64, err error) {
	err = l.Store.Audit(audit.Run(a.RunID), 0, func(e audit.Entry) error {
		last = e.Seq
		switch {
		case e.Who == nil:
		case e.Kind == audit.RunStarted:
			requesters = append(requesters, *e.Who)
		case e.Kind == audit.ActionApproved:
			var b actionBody
			if err := json.Unmarshal(e.Body, &b); err != nil {
				return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
			}
			if b.Of == a.Key && b.Digest == digest {
				approvals = append(approvals, e)
			}
		}
		return nil
	})
	return requesters, approvals, last, err
}

// eachAction calls visit for the entries of some kinds about actions of a run.
func (l *Ledger) eachAction(run string, visit func(audit.Entry, actionBody), kinds ...audit.Kind) error {
	return l.Store.Audit(audit.Run(run), 0, func(e audit.Entry) error {
		if !slices.Contains(kinds, e.Kind) {
			return nil
		}
		var b actionBody
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		visit(e, b)
		return nil
	})
}

// bindingOf returns the values that an approval of a binds, without the lists for people: of several repositories a list.
func bindingOf(a lattice.Action) json.RawMessage {
	parts := action.Parts(a)
	if len(parts) == 1 {
		return partBinding(a)
	}
	var all []json.RawMessage
	for _, part := range parts {
		all = append(all, partBinding(part))
	}
	list, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return list
}

func partBinding(a lattice.Action) json.RawMessage {
	var b action.Binding
	if len(a.Binding) == 0 || json.Unmarshal(a.Binding, &b) != nil {
		return nil
	}
	if b.Head == "" {
		return a.Binding // a place or warnings alone
	}
	bound := map[string]any{"remote": b.RemoteURL, "branch": b.Branch, "base": b.Base, "head": b.Head, "diff_sha256": b.DiffDigest, "bundle_sha256": b.SHA256, "warnings": b.Warnings}
	if b.Place != nil {
		bound["place"] = b.Place
	}
	if b.Statement != "" {
		bound["statement_sha256"] = b.Statement
	}
	short, err := json.Marshal(bound)
	if err != nil {
		return nil
	}
	return short
}

// bindingDigest returns the digest that an approval of a binds: of the values of bindingOf, and of an action that is not a push
// the parameters.
func bindingDigest(a lattice.Action) string {
	bound := string(bindingOf(a))
	if a.Name != protocol.ActionPushBranch || bound == "" {
		bound = string(a.Parameters) + bound
	}
	sum := sha256.Sum256([]byte(a.Name + "\x00" + bound))
	return hex.EncodeToString(sum[:])
}
