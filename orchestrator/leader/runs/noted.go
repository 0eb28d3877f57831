package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/leader/govern"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// ActionLog is the engine's log. It also prints noted actions and their outcomes to the output log of their run.
type ActionLog struct {
	driver.Log
	Outputs *history.Outputs
}

func (l ActionLog) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	seq, err := l.Log.Append(ctx, run, after, entries)
	if err != nil {
		return seq, err
	}
	for _, e := range entries {
		if line := actionLine(e); line != "" {
			fmt.Fprintln(l.Outputs.Open(run, ""), line)
		}
	}
	return seq, nil
}

// actionLine describes a fact about a noted action on one line, "" for other entries.
func actionLine(e lattice.Entry) string {
	if _, ok, err := lattice.ChangeAction(e); err != nil || !ok {
		return ""
	}
	fact, err := lattice.DecodeFact(e.Type, e.Body)
	if err != nil {
		return ""
	}
	switch f := fact.(type) {
	case lattice.ActionNoted:
		if f.Begun {
			return "" // the outcome follows
		}
		return fmt.Sprintf("%s %s: %s", f.Action.Name, f.Action.Parameters, f.Detail)
	case lattice.ActionDecided:
		done := map[bool]string{true: ", who did it"}[f.Decision == lattice.Approve && f.ByHand]
		return fmt.Sprintf("%s: %s by %s%s", f.Action, map[lattice.Decision]string{lattice.Approve: "approved", lattice.Reject: "rejected"}[f.Decision], f.By, done)
	case lattice.ActionSettled:
		if f.Fault != nil {
			return fmt.Sprintf("%s: not done: %s", f.Action, f.Fault.Message)
		}
		return f.Action + ": done"
	}
	return ""
}

// Performer performs an action outside of sprites. It is idempotent by the action's key; a *lattice.Refusal is the
// action's failure.
type Performer interface {
	Do(ctx context.Context, a lattice.Action) (result []byte, err error)
}

// Notes lists the actions that no run waits for, and makes people's decisions about them facts of the run (api.Actions).
type Notes struct {
	Store   *store.Store
	Records *history.Records
	Drives  *drive.Drives
	Actor   Performer
	// Approvals checks and records what people decide.
	Approvals *govern.Approvals

	mu sync.Mutex // held while an action is decided
}

// Actions lists them.
func (n *Notes) Actions(_ context.Context, id string) ([]api.NotedAction, error) {
	if id != "*" {
		id, err := n.Records.Resolve(id)
		if err != nil {
			return nil, err
		}
		return n.listActions(id)
	}
	ids, err := n.Store.WithOpenActions()
	if err != nil {
		return nil, fmt.Errorf("list open actions: %w", err)
	}
	open := []api.NotedAction{}
	for _, id := range ids {
		all, err := n.listActions(id)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			if a.Status == api.ActionOpen || a.Status == api.ActionApproved {
				open = append(open, a)
			}
		}
	}
	return open, nil
}

// listActions returns the actions of one run, in the order of their requests, each as the last fact about it tells.
func (n *Notes) listActions(id string) ([]api.NotedAction, error) {
	history, err := n.Store.Load(id)
	if err != nil {
		return nil, fmt.Errorf("read facts of run %s: %w", id, err)
	}
	all := []api.NotedAction{}
	at := map[string]int{}
	newest := newestPushes{}
	for _, e := range history.Facts {
		newest.applyFact(e)
		change, ok, err := lattice.ChangeAction(e)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return nil, err
		}
		i, known := at[change.Key]
		if f, noted := fact.(lattice.ActionNoted); noted && !known {
			at[change.Key] = len(all)
			all = append(all, newNotedAction(id, e.At, f))
		} else if noted && all[i].DecidedAt == nil {
			all[i] = newNotedAction(id, e.At, f)
		} else if known {
			applyFact(&all[i], e.At, fact)
		}
	}
	for i := range all {
		if by := newest.supersede(all[i]); all[i].Status == api.ActionOpen && by != "" {
			all[i].Status, all[i].Detail = api.ActionRejected, superseded+by[:min(10, len(by))]
		}
	}
	return all, nil
}

// superseded begins the detail of a push that a newer one has replaced.
const superseded = "superseded by "

// newestPushes holds the key of the newest push that was asked for, by its branch.
type newestPushes map[string]string

func (n newestPushes) applyFact(e lattice.Entry) {
	if e.Type != (lattice.ActionNoted{}).FactType() && e.Type != (lattice.CallSuspended{}).FactType() {
		return
	}
	fact, err := lattice.DecodeFact(e.Type, e.Body)
	if err != nil {
		return // listActions reports it
	}
	var asked lattice.Action
	switch f := fact.(type) {
	case lattice.ActionNoted:
		asked = f.Action
	case lattice.CallSuspended:
		if f.Action != nil {
			asked = *f.Action
		}
	}
	for _, to := range action.Destinations(asked) {
		n[to] = asked.Key
	}
}

// supersede returns the key of a newer push to a branch of a, "" if there is none.
func (n newestPushes) supersede(a api.NotedAction) string {
	for _, to := range action.Destinations(lattice.Action{Name: a.Action, Parameters: a.Parameters, Binding: a.Binding}) {
		if n[to] != a.Key {
			return n[to]
		}
	}
	return ""
}

func newNotedAction(id string, at time.Time, f lattice.ActionNoted) api.NotedAction {
	a := api.NotedAction{RunID: id, Key: f.Action.Key, Action: f.Action.Name, Parameters: f.Action.Parameters, Binding: f.Action.Binding,
		ByHand: action.ByHand(f.Action), Sprite: f.Action.Sprite, Detail: f.Detail, At: at, Status: api.ActionForbidden}
	switch {
	case f.Verdict == lattice.Ask:
		a.Status, a.Detail = api.ActionOpen, ""
	case f.Begun:
		a.Status = api.ActionApproved
	case f.Verdict == lattice.Allow && f.Detail == "done":
		a.Status, a.Detail = api.ActionFulfilled, ""
	}
	return a
}

// applyFact changes an action by a fact about it.
func applyFact(a *api.NotedAction, at time.Time, fact lattice.Fact) {
	switch f := fact.(type) {
	case lattice.ActionDecided:
		a.By, a.DecidedAt, a.Comments, a.Detail = f.By, &at, f.Comments, ""
		switch {
		case f.Decision == lattice.Reject:
			a.Status = api.ActionRejected
		case f.ByHand:
			a.Status = api.ActionFulfilled
		default:
			a.Status = api.ActionApproved
		}
	case lattice.ActionSettled:
		if a.Status = api.ActionFulfilled; !f.OK {
			a.Status, a.By, a.DecidedAt, a.Comments = api.ActionOpen, "", nil, ""
			a.Detail = "not done"
			if f.Fault != nil {
				a.Detail += ": " + f.Fault.Message
			}
		}
	}
}

// DecideAction makes a decision a fact, and performs an action that was approved after that. An approved action whose
// outcome is not on disk, because a process was killed, is performed again when it is approved again.
func (n *Notes) DecideAction(ctx context.Context, id string, d api.ActionDecision) (api.NotedAction, error) {
	id, err := n.Records.Resolve(id)
	if err != nil {
		return api.NotedAction{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a, err := n.findAction(id, d.Key)
	if err != nil {
		return a, err
	}
	want := map[lattice.Decision]string{lattice.Approve: api.ActionFulfilled, lattice.Reject: api.ActionRejected}[d.Decision]
	resumed := a.Status == api.ActionApproved && d.Decision == lattice.Approve
	switch {
	case want == "":
		return a, fault.BadInput("bad_request", "an action is approved or rejected")
	case a.Status == want:
		return a, nil
	case strings.HasPrefix(a.Detail, superseded):
		return a, n.Approvals.RefuseSuperseded(ctx, lattice.Action{Key: a.Key, RunID: id, Name: a.Action, Parameters: a.Parameters, Binding: a.Binding})
	case a.Status != api.ActionOpen && !resumed:
		return a, fault.Busy("already_decided", "%s is %s; nothing changed", a.Action, strings.TrimSpace(a.Status+" "+a.Detail)).WithHint("lattice action ls %s", id)
	}
	if err := n.Drives.AwaitHandover(ctx); err != nil {
		return a, err
	}
	r, err := n.Drives.LoadBegun(ctx, id)
	if err != nil {
		return a, err
	}
	asked := lattice.Action{Key: a.Key, RunID: id, Sprite: a.Sprite, Name: a.Action, Parameters: a.Parameters, Binding: a.Binding}
	if err := n.Approvals.Decide(ctx, asked, "", d.Decision, d.Comments); err != nil {
		return a, err
	}
	byHand := a.ByHand
	if !resumed || byHand {
		fact := lattice.ActionDecided{Key: a.Key, Action: a.Action, Decision: d.Decision, ByHand: d.Decision == lattice.Approve && byHand, Comments: d.Comments, By: d.By}
		if err := r.Runner.DecideAction(ctx, fact); err != nil {
			return a, problem.StoreProblem(fmt.Errorf("record the decision: %w", err))
		}
	}
	if d.Decision == lattice.Approve && !byHand {
		if err := n.performAction(ctx, r.Runner, a); err != nil {
			return a, err
		}
	}
	return n.findAction(id, a.Key)
}

// performAction performs an approved action and records its outcome.
func (n *Notes) performAction(ctx context.Context, r *driver.Runner, a api.NotedAction) error {
	settled := lattice.ActionSettled{Key: a.Key, Action: a.Action}
	result, err := n.Actor.Do(ctx, lattice.Action{Key: a.Key, RunID: a.RunID, Sprite: a.Sprite, Name: a.Action, Parameters: a.Parameters, Binding: a.Binding})
	var refusal *lattice.Refusal
	switch {
	case errors.As(err, &refusal):
		settled.Fault = &refusal.Fault
	case err != nil:
		return fmt.Errorf("do %s of %s: %w", a.Action, a.RunID, err)
	default:
		settled.OK, settled.Result = true, result
	}
	if err := r.SettleAction(context.WithoutCancel(ctx), settled); err != nil {
		return problem.StoreProblem(fmt.Errorf("record that %s of %s was done: %w", a.Action, a.RunID, err))
	}
	if refusal != nil {
		return fault.Failed(refusal.Fault.Code, "%s", refusal.Fault.Message).WithHint("%s", refusal.Fault.Hint)
	}
	return nil
}

// findAction returns the action of a run whose key is key or begins with it.
func (n *Notes) findAction(id, key string) (api.NotedAction, error) {
	all, err := n.listActions(id)
	if err != nil {
		return api.NotedAction{}, err
	}
	var found []api.NotedAction
	for _, a := range all {
		if a.Key == key {
			return a, nil
		}
		if strings.HasPrefix(a.Key, key) {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 0:
		return api.NotedAction{}, fault.NotFound("action_not_found", "%s noted no action %q", id, key).WithHint("lattice action ls %s", id)
	case 1:
		return found[0], nil
	}
	return api.NotedAction{}, fault.BadInput("action_ambiguous", "%s noted %d actions that %q could mean", id, len(found), key).WithHint("lattice action ls %s", id)
}
