package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A command is carried out again if a crash came before the entry that says that it was. Its meaning is therefore determined once
// and recorded before its effect: an intent has its plan, every other command has an aim. The second time the thread may be
// different: there may be another comment, or a wait is decided, or a run has ended.

// aim is the body of an entry that says which run or intent a command is about, and which decision it makes.
type aim struct {
	Run      string             `json:"run_id,omitempty"`
	Decision *api.DecideRequest `json:"decision,omitempty"`
	Intent   string             `json:"intent_id,omitempty"`
	Plan     string             `json:"plan_sha256,omitempty"` // of the intent
	Reason   string             `json:"reason,omitempty"`      // why it is rejected
}

func aimsOf(t thread.Thread) string { return strings.ToLower("aims:" + t.String()) }

// createOnce creates the intent of a command, or goes on with it as it was recorded.
func (d *Dialogue) createOnce(ctx context.Context, a asked) (intent.State, error) {
	var values api.Values // as the request for the intent has them
	if a.Verb == comment.Plan {
		values = d.Hosts[a.Host].values()
	}
	s, found, err := d.Runs.ResumeIntent(ctx, a.key(), values)
	switch {
	case err != nil || found:
		return s, err
	case a.Verb == comment.Plan && a.Text != "":
		return d.planProject(ctx, a)
	case a.Verb == comment.Plan:
		return d.planTask(ctx, a)
	}
	return d.startResearch(ctx, a)
}

// repeatWork creates an intent with the plan of the newest run of a thread, if all have ended and an intent began it. A command that did so
// before goes on with its own intent.
func (d *Dialogue) repeatWork(ctx context.Context, a asked, all []api.RunView, open bool) (s intent.State, repeated bool, err error) {
	values := d.Hosts[a.Host].values()
	if s, found, err := d.Runs.ResumeIntent(ctx, a.key(), values); err != nil || found {
		return s, found, err
	}
	if open || len(all) == 0 || all[0].IntentID == "" {
		return s, false, nil
	}
	before, err := d.Runs.Intent(ctx, all[0].IntentID)
	if err != nil {
		return s, false, err
	}
	s, err = d.Runs.CreateIntent(ctx, api.IntentRequest{Kind: before.Kind, Subject: before.Subject, Signal: "forge", Key: a.key(),
		Repo: before.Plan.Repo, Input: before.Plan.Input, AgentEnv: before.Plan.AgentEnv, Routes: before.Plan.Routes, Values: values})
	return s, true, err
}

// aimOnce returns the aim of a command that was recorded before, or records the one that find returns.
func (d *Dialogue) aimOnce(ctx context.Context, a asked, find func() (aim, error)) (t aim, before bool, err error) {
	key := "aim:" + a.entryName()
	err = d.Facts.AuditEntries(ctx, aimsOf(a.Thread), 0, func(e audit.Entry) error {
		if e.Key != key {
			return nil
		}
		before = true
		return json.Unmarshal(e.Body, &t)
	})
	if err != nil || before {
		return t, before, err
	}
	if t, err = find(); err == nil {
		_, err = d.Facts.AddFact(ctx, audit.Entry{Kind: audit.Command, Subject: aimsOf(a.Thread), Key: key}, t, store.Any)
	}
	return t, false, err
}

// findAim returns the decision of a person about a wait or an intent of a thread. If none has the digest, the newest run may have a
// plan that was not offered; the person is told the reason.
func (d *Dialogue) findAim(ctx context.Context, a asked, all, open []api.RunView, by string) (aim, error) {
	for offered := false; ; offered = true {
		gated, err := d.Runs.GatedIntents(ctx, a.Thread.String())
		if err != nil {
			return aim{}, err
		}
		t, err := findRequest(a, thread.ListRequests(open, gated), by)
		if p := fault.As(err); err == nil || offered || p == nil || p.Code != "not_waiting" || len(all) == 0 {
			return t, err
		}
		if _, err := d.Offer(ctx, a.Thread, all[0]); err != nil {
			return aim{}, err
		}
	}
}

// performAim performs a command on its run or intent. before says that it may have been performed; a decision is idempotent by itself.
func (d *Dialogue) performAim(ctx context.Context, a asked, t aim, before bool, by string) error {
	if t.Intent != "" {
		return d.decideIntent(ctx, a, t)
	}
	values := d.Hosts[a.Host].values()
	if t.Decision != nil {
		request := *t.Decision
		request.Values = values
		_, err := d.Runs.Decide(ctx, t.Run, request)
		return err
	}
	if before {
		if v, err := d.Runs.Run(ctx, t.Run); err != nil || v.Status.Ended() {
			return err
		}
	}
	var err error
	switch a.Verb {
	case comment.Cancel:
		_, err = d.Runs.Cancel(ctx, t.Run, by)
	case comment.Hold:
		_, err = d.Runs.Stop(ctx, t.Run)
	case comment.Rerun:
		_, err = d.Runs.Drive(ctx, t.Run, api.DriveRequest{Detach: true, Values: values})
	default:
		return fmt.Errorf("the command %q is not known here", a.Verb)
	}
	return err
}

// decideIntent decides about an intent. A decision that does not hold any more is refused, and trying it again is pointless.
func (d *Dialogue) decideIntent(ctx context.Context, a asked, t aim) error {
	decision := api.IntentDecision{Decision: string(a.Verb), Plan: t.Plan, Reason: t.Reason, Values: d.Hosts[a.Host].values()}
	_, err := d.Runs.DecideIntent(ctx, t.Intent, decision)
	if refused := fault.As(err); refused != nil && slices.Contains([]string{"plan_changed", "superseded", "intent_state"}, refused.Code) {
		final := *refused
		final.Retryable = false
		return &final
	}
	return err
}

const leastDigest = 12 // from this length on, a word of hexadecimal digits is a digest

// findRequest returns the decision that a person makes. An approval names the digest of the approved request; a rejection may name one, and
// a ticked box belongs to one.
func findRequest(a asked, all []thread.Request, by string) (aim, error) {
	named, reason := a.Text, ""
	if a.Verb == comment.Reject {
		named, reason = "", a.Text
		word, rest, _ := strings.Cut(a.Text, " ")
		if comment.IsDigest(word) && (len(word) >= leastDigest || slices.ContainsFunc(all, func(q thread.Request) bool { return isNamed(q, word) })) {
			named, reason = word, strings.TrimSpace(rest)
		}
	}
	var found []thread.Request
	for _, q := range all {
		switch {
		case a.box != "" && q.Digest != a.box:
		case a.Verb == comment.Answer && q.Intent == nil, a.Verb == comment.Reject && named == "", a.Verb != comment.Answer && isNamed(q, named):
			found = append(found, q)
		}
	}
	switch n := len(found); {
	case n == 0 && a.Verb == comment.Approve:
		return aim{}, fault.Failed("not_waiting", "nothing waits for an approval with the digest %s; it may have changed, or was decided", named)
	case n == 0 && a.Verb == comment.Reject && named != "":
		return aim{}, fault.Failed("not_waiting", "nothing with the digest %s waits for a decision", named)
	case n == 0:
		return aim{}, fault.Failed("not_waiting", "nothing waits for a decision")
	case n > 1:
		return aim{}, fault.BadInput("several_waits", "%d requests wait; /lattice reject DIGEST names one, and lattice waiting lists them: lattice answer RUN --wait ID answers one", n)
	}
	q := found[0]
	switch tooLong := a.Verb == comment.Approve && !q.Fits(); {
	case tooLong && q.Intent != nil:
		return aim{}, fault.Failed("not_waiting", "the plan of %s is longer than a comment shows: lattice intent show %[1]s, then lattice intent approve %[1]s", q.Intent.ID)
	case tooLong:
		return aim{}, fault.Failed("not_waiting", "the request of %s is longer than a comment shows: lattice show %[1]s --json, then lattice approve %[1]s --wait %s", q.Run, q.Wait.ID)
	}
	if q.Intent != nil {
		return aim{Intent: q.Intent.ID, Plan: q.Intent.Digest, Reason: reason}, nil
	}
	t := aim{Run: q.Run, Decision: &api.DecideRequest{WaitID: q.Wait.ID, By: by, Detach: true}}
	switch a.Verb {
	case comment.Approve:
		t.Decision.Decision = lattice.Approve
	case comment.Reject:
		t.Decision.Decision, t.Decision.Comments = lattice.Reject, reason
	default:
		inputs, err := comment.Fill(a.Text, q.Wait.Expected, q.Wait.Optional)
		switch {
		case err != nil:
			return aim{}, fault.BadInput("bad_answer", "%v", err)
		case q.Wait.YesOrNo() && slices.Contains([]string{"", "true", "yes", "y"}, strings.ToLower(inputs["approved"])): // the comment does not name a digest
			return aim{}, fault.BadInput("bad_answer", "an answer does not approve: /lattice approve DIGEST does, with the digest of the question")
		}
		t.Decision.Decision, t.Decision.Inputs = lattice.Answer, inputs
	}
	return t, nil
}

// isNamed reports whether a person names a request by its digest or the beginning of it.
func isNamed(q thread.Request, named string) bool {
	whole := q.Digest
	if q.Intent != nil {
		whole = q.Intent.Digest
	}
	return comment.IsDigest(named) && strings.HasPrefix(whole, named)
}
