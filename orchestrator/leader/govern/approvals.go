package govern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Approvals checks the authority of people at the moment of their decision, and records the decision before it takes effect.
type Approvals struct {
	Ledger   *Ledger
	PolicyOf func(ctx context.Context, run string) (policy.Policy, error)
	// RepoOf returns the repository that a run works on, as action.Options has it.
	RepoOf func(run string) (spec, name string, ok bool)
}

// PersonOf returns the user who made a request: the peer of the socket, else the user of this process.
func PersonOf(ctx context.Context) audit.Who {
	if who := caller.Of(ctx); who != nil {
		return *who
	}
	who := audit.Who{Name: "unknown", UID: -1}
	if u, err := user.Current(); err == nil {
		who.Name = u.Username
		if uid, err := strconv.Atoi(u.Uid); err == nil {
			who.UID = uid
		}
	}
	return who
}

// Decide records a decision about an action. It fails if the policy does not let the person approve, and with
// approval_incomplete if other people must approve as well.
func (p *Approvals) Decide(ctx context.Context, a lattice.Action, wait string, d lattice.Decision, comments string) error {
	body := actionBody{Action: a.Name, Of: a.Key, Binding: bindingOf(a), Digest: bindingDigest(a), Comments: comments, Wait: wait}
	subject := audit.Run(a.RunID)
	if d == lattice.Reject {
		return p.Ledger.Record(ctx, audit.ActionRejected, subject, "", body)
	}
	if old, err := p.Ledger.IsSuperseded(a); err != nil {
		return err
	} else if old {
		return p.RefuseSuperseded(ctx, a)
	}
	current, err := p.PolicyOf(ctx, a.RunID)
	if err != nil {
		return err
	}
	own, _, _ := p.RepoOf(a.RunID)
	for { // until the approval follows all entries that were read: another person may approve at the same moment
		requesters, approvers, last, err := p.Ledger.peopleOf(a, body.Digest)
		if err != nil {
			return problem.StoreProblem(err)
		}
		more := 0 // people who must approve as well
		for _, part := range action.Parts(a) {
			rule := current.Action(action.RequestOf(part, own))
			if rule.Decision == lattice.Deny {
				return p.refuse(ctx, subject, body, fmt.Sprintf("%s; the rule is %s", rule.Reason, rule.Rule))
			}
			missing, reason := Admit(ctx, current, rule, requesters, whoHolds(approvers, rule.Approve.Expires))
			if reason != "" {
				return p.refuse(ctx, subject, body, reason)
			}
			more = max(more, missing)
		}
		switch _, err := p.Ledger.Add(ctx, audit.Entry{Kind: audit.ActionApproved, Subject: subject}, body, last); {
		case errors.Is(err, lattice.ErrConflict):
			continue
		case err != nil:
			return err
		case more > 0:
			return fault.New(protocol.ExitWaiting, "approval_incomplete", "your approval of %s is recorded; it needs %d more", a.Name, more).WithHint("another person: lattice approve %s", a.RunID)
		}
		return nil
	}
}

// Admit reports whether the caller may approve under a rule of a policy, and why not. A program never may. The other values are as in
// policy.Approve.Admits.
func Admit(ctx context.Context, p policy.Policy, rule policy.Verdict, requesters, approvers []audit.Who) (more int, reason string) {
	who := PersonOf(ctx)
	if reason, bot := p.Bot(who, caller.Variables(ctx)); reason != "" {
		return 0, fmt.Sprintf("%s, and only people approve; the rule is %s", reason, bot)
	}
	more, reason = rule.Approve.Admits(who, requesters, approvers)
	if reason != "" {
		reason = fmt.Sprintf("%s; the rule is %s", reason, rule.Rule)
	}
	return more, reason
}

// Answer records a decision about a wait that is not about an action. It fails if a program approves.
func (p *Approvals) Answer(ctx context.Context, run string, w lattice.Wait, a lattice.Answered) error {
	body := map[string]any{"wait_id": w.ID, "wait": w.Kind, "node": w.Node, "decision": a.Decision, "comments": a.Comments}
	if isApproval(w, a) {
		if err := p.AdmitPerson(ctx, run, audit.Run(run), body); err != nil {
			return err
		}
	}
	return p.Ledger.Record(ctx, audit.WaitAnswered, audit.Run(run), "", body)
}

// isApproval reports whether a decision about a wait approves, also as an answer to a question that can be approved.
func isApproval(w lattice.Wait, a lattice.Answered) bool {
	var inputs map[string]any
	answered := a.Decision == lattice.Answer && w.YesOrNo() && json.Unmarshal(a.Inputs, &inputs) == nil
	return a.Decision == lattice.Approve || answered && inputs["approved"] != false
}

// RefuseAnswer records that a decision about a wait does not fit it. The text of an answer may be a secret, so that the entry has none.
// Of several by one person there is one entry.
func (p *Approvals) RefuseAnswer(ctx context.Context, run string, w lattice.Wait, reason error) error {
	f := fault.As(reason)
	if f == nil {
		return nil
	}
	body := map[string]any{"wait_id": w.ID, "node": w.Node, "code": f.Code, "outcome": "refused: the decision does not fit the wait"}
	key := fmt.Sprintf("answer-refused:%s:%s:%s:%s", run, w.ID, f.Code, PersonOf(ctx).Name)
	return p.Ledger.Record(ctx, audit.AnswerRefused, audit.Run(run), key, body)
}

// AdmitPerson fails if the caller is a program, and records that with body, under the policy of a run.
func (p *Approvals) AdmitPerson(ctx context.Context, run, subject string, body map[string]any) error {
	current, err := p.PolicyOf(ctx, run)
	if err != nil {
		return err
	}
	_, reason := Admit(ctx, current, policy.Verdict{}, nil, nil)
	if reason == "" {
		return nil
	}
	body = maps.Clone(body)
	body["reason"] = reason
	if err := p.Ledger.Record(ctx, audit.ApprovalRefused, subject, "", body); err != nil {
		return err
	}
	return fault.Denied("approval_denied", "%s", reason).WithHint("approve in a terminal of your own, or on the page")
}

// refuse records that a person may not approve, and returns the error that says so.
func (p *Approvals) refuse(ctx context.Context, subject string, body actionBody, reason string) error {
	body.Reason = reason
	if err := p.Ledger.Record(ctx, audit.ApprovalRefused, subject, "", body); err != nil {
		return err
	}
	return fault.Denied("approval_denied", "%s", reason).WithHint("lattice policy explain %s", body.Action)
}

// RefuseSuperseded records the approval of a push that a newer one has replaced, and returns the error that says so.
func (p *Approvals) RefuseSuperseded(ctx context.Context, a lattice.Action) error {
	body := actionBody{Action: a.Name, Of: a.Key, Binding: bindingOf(a), Digest: bindingDigest(a), Reason: "superseded"}
	if err := p.Ledger.Record(ctx, audit.ApprovalRefused, audit.Run(a.RunID), "", body); err != nil {
		return err
	}
	return fault.Busy("superseded", "the run has asked for a newer push to the same branch, so this one is rejected").WithHint("lattice waiting lists the newer one; lattice reject lets the skill that waits for this one go on")
}

// whoHolds returns the people whose approvals have not expired.
func whoHolds(approvals []audit.Entry, expires policy.Duration) (people []audit.Who) {
	for _, e := range approvals {
		if Holds(e.At, expires) {
			people = append(people, *e.Who)
		}
	}
	return people
}

// Holds reports whether an approval of an instant has not expired.
func Holds(at time.Time, expires policy.Duration) bool {
	return expires == 0 || time.Since(at) < time.Duration(expires)
}
