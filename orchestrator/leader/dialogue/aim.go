package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/store"
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

func aimsOf(t Thread) string { return strings.ToLower("aims:" + t.String()) }

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
	key := fmt.Sprintf("aim:%s:%d:%d", a.Host, a.item, a.Line)
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
