package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// mail is a report of an effect: an event, an action that it is about to perform, or its outcome.
type mail struct {
	command string
	event   *lattice.Entry
	begun   *begunAction
	facts   []lattice.Fact
	err     error
}

// begunAction asks for a fact to be put on the disk. stored receives nil when it is there.
type begunAction struct {
	fact   lattice.ActionNoted
	stored chan error
}

// effect is one pending command being performed. It does not touch the runner's state; it reports by mail, and the
// drive receives until every effect has ended.
type effect struct {
	r       *Runner
	command lattice.Command
	issue   issue // when it was issued
	at      lattice.Seq
	mail    chan<- mail
}

func (e effect) reportOutcome(ctx context.Context) {
	facts, err := e.performCommand(ctx)
	if refusal, ok := errors.AsType[*lattice.Refusal](err); ok {
		facts, err = []lattice.Fact{lattice.CommandFailed{CommandID: e.command.ID, Fault: refusal.Fault}}, nil
	}
	if err != nil {
		err = fmt.Errorf("%s for run %s: %w", e.command.Kind, e.r.State().RunID, err)
	}
	e.mail <- mail{command: e.command.ID, facts: facts, err: err}
}

func (e effect) performCommand(ctx context.Context) ([]lattice.Fact, error) {
	c, deps := e.command, e.r.deps
	switch c.Kind {
	case lattice.DoPrepare:
		members, err := deps.Preparer.Prepare(ctx, e.r.State().RunID, c.Sprite)
		if err != nil {
			return nil, err
		}
		return e.encodePrepared(members)
	case lattice.DoFork:
		members, err := deps.Forker.Fork(ctx, e.r.State().RunID, *c.Pair, c.Sprite)
		if err != nil {
			return nil, err
		}
		return e.encodePrepared(members)
	case lattice.DoCall:
		return e.callSkill(ctx)
	case lattice.DoCheckpoint:
		take := deps.Boundary.Checkpoint
		if c.Durable {
			take = deps.Boundary.CheckpointDurable
		}
		pair, err := take(ctx, c.Sprite)
		if err != nil {
			return nil, err
		}
		pair.Seq = e.at
		return []lattice.Fact{lattice.BoundaryTaken{CommandID: c.ID, Pair: pair}}, nil
	case lattice.DoRestore:
		if err := deps.Boundary.Restore(ctx, c.Sprite, *c.Pair); err != nil {
			return nil, err
		}
		return []lattice.Fact{lattice.Restored{CommandID: c.ID, Pair: *c.Pair}}, nil
	case lattice.DoAction:
		return e.doAction(ctx)
	case lattice.DoModel:
		return e.askModel(ctx)
	case lattice.DoAttest:
		return e.attest(ctx)
	case lattice.DoTimer:
		for again := true; again; again = c.Until != "" && e.issue.timeLeft(c, deps) > 0 {
			if err := deps.Sleep(ctx, e.issue.timeLeft(c, deps)); err != nil {
				return nil, err
			}
		}
		return []lattice.Fact{lattice.TimerFired{CommandID: c.ID}}, nil
	}
	return nil, fmt.Errorf("unknown command %q", c.Kind)
}

func (e effect) encodePrepared(members map[string]any) ([]lattice.Fact, error) {
	raw, err := expr.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("encode prepared context: %w", err)
	}
	return []lattice.Fact{lattice.Prepared{CommandID: e.command.ID, Ctx: raw}}, nil
}

func (e effect) doAction(ctx context.Context) ([]lattice.Fact, error) {
	done := lattice.ActionDone{CommandID: e.command.ID, Key: e.command.Action.Key}
	result, err := e.r.deps.Actor.Do(ctx, *e.command.Action)
	var refusal *lattice.Refusal
	switch {
	case errors.As(err, &refusal):
		done.Fault = &refusal.Fault
	case err != nil:
		return nil, err
	default:
		done.OK, done.Result = true, result
	}
	return []lattice.Fact{done}, nil
}

// maxFree bounds the actions that one call asks for without waiting: no loop in a sprite acts on the world without end.
const maxFree = 256

// callSkill runs the skill. Actions that it asked for without waiting are judged, and done if policy allows, before its end
// becomes a fact: cut off in between, the call is found out about again, and actions are idempotent by their key. After a loss
// of power the call may be made again under another id; then the fact that an action was begun names its key.
func (e effect) callSkill(ctx context.Context) ([]lattice.Fact, error) {
	call := *e.command.Call
	call.ID = lattice.CallID(e.r.secret, call)
	call.Uncertain = e.issue.sent
	var asked []protocol.ActionRequest
	outcome, err := e.r.deps.Caller.Call(ctx, call, func(ev lattice.Event) {
		entry := e.newEventEntry(ev)
		e.mail <- mail{command: e.command.ID, event: &entry}
		if req, ok := freeRequest(call, ev); ok && len(asked) <= maxFree {
			asked = append(asked, req)
		}
	})
	if err != nil {
		return nil, err
	}
	var facts []lattice.Fact
	for i, req := range asked {
		if i == maxFree { // stands for all that come behind it
			facts = append(facts, lattice.ActionNoted{Action: newAction(call, req), Verdict: lattice.Deny, Of: new(runstate.AttemptOf(&call)),
				Detail: fmt.Sprintf("not done: one call may ask for %d actions without waiting for them", maxFree)})
			break
		}
		noted, err := e.fulfilAction(ctx, call, req)
		if err != nil {
			return nil, err
		}
		facts = append(facts, noted)
	}
	last, err := e.encodeOutcome(ctx, call, outcome)
	if err != nil {
		return nil, err
	}
	return append(facts, last), nil
}

// encodeOutcome turns an outcome into its fact.
func (e effect) encodeOutcome(ctx context.Context, call lattice.Call, o lattice.Outcome) (lattice.Fact, error) {
	switch o.Kind {
	case lattice.Lost:
		return lattice.CallLost{CommandID: e.command.ID, CallID: call.ID, Detail: o.Detail, Continues: e.r.program.Tools[call.Skill].Continues, Watched: !call.Uncertain}, nil
	case lattice.Finished:
		if o.Asked != nil {
			return lattice.CallBlocked{CommandID: e.command.ID, CallID: call.ID, Exit: o.Exit, Question: *o.Asked}, nil
		}
		return lattice.CallFinished{
			CommandID: e.command.ID, CallID: call.ID, OK: o.Result.OK && o.Failure == "", Exit: o.Exit,
			Data: o.Result.Data, Fault: e.nameInputs(call.Node, o.Result.Error), Kind: o.Failure,
		}, nil
	case lattice.Suspended:
		return e.encodeSuspended(ctx, call, o)
	}
	return nil, fmt.Errorf("unknown outcome %q of call %s", o.Kind, call.ID)
}

// nameInputs adds the names that the flow has for inputs to the hint of a skill, which has names of its own.
func (e effect) nameInputs(node string, f *protocol.Fault) *protocol.Fault {
	n := e.r.program.Node(node)
	if f == nil || n == nil {
		return f
	}
	named := n.DescribeInputs(f.Hint)
	if named == "" {
		return f
	}
	told := *f
	told.Hint += "; in this flow, " + named
	return &told
}

func (e effect) encodeSuspended(ctx context.Context, call lattice.Call, o lattice.Outcome) (lattice.Fact, error) {
	f := lattice.CallSuspended{CommandID: e.command.ID, CallID: call.ID, Request: o.Request}
	if w := o.Result.Waiting; w != nil {
		f.Reason, f.CheckpointID, f.Expected, f.ResumeAt = w.Reason, w.CheckpointID, w.ExpectedInputs, w.ResumeAt
	}
	if f.CheckpointID == "" { // a sprite without a checkpoint socket: the files are as the skill left them
		pair, err := e.r.deps.Boundary.CheckpointDurable(ctx, call.Sprite)
		if err != nil {
			return nil, err
		}
		f.CheckpointID = pair.CheckpointID
	}
	if o.Request != nil {
		action, verdict, reason, err := e.inspectAction(ctx, call, *o.Request)
		if err != nil {
			return nil, err
		}
		f.Action, f.Verdict, f.DenyReason = &action, verdict, reason
	}
	return f, nil
}

// newAction returns the action that a call asks for, without the key that inspect gives it.
func newAction(call lattice.Call, req protocol.ActionRequest) lattice.Action {
	return lattice.Action{RunID: call.RunID, CallID: call.ID, Sprite: call.Sprite, Name: req.Action, Parameters: req.Parameters}
}

// inspectAction asks policy about a request. A request that cannot even be looked at is denied with the reason.
func (e effect) inspectAction(ctx context.Context, call lattice.Call, req protocol.ActionRequest) (lattice.Action, lattice.Verdict, string, error) {
	action := newAction(call, req)
	key, err := actionKey(action)
	if err != nil {
		return action, lattice.Deny, "parameters: " + err.Error(), nil
	}
	action.Key = key
	inspected, verdict, reason, err := e.r.deps.Actor.Inspect(ctx, call, action)
	if refusal, ok := errors.AsType[*lattice.Refusal](err); ok {
		return action, lattice.Deny, refusal.Fault.Message, nil
	}
	return inspected, verdict, reason, err
}

// fulfilAction judges and does an action that nothing waits for. One that the same attempt asked for before the power was lost is
// answered from its record; if it had only begun, it is done again as it was, which is doing it once.
func (e effect) fulfilAction(ctx context.Context, call lattice.Call, req protocol.ActionRequest) (lattice.ActionNoted, error) {
	if noted, found := findNoted(e.r.State().Records, call, req); found {
		if noted.Begun {
			return e.performAction(ctx, noted)
		}
		return noted, nil
	}
	action, verdict, detail, err := e.inspectAction(ctx, call, req)
	if err != nil {
		return lattice.ActionNoted{}, err
	}
	noted := lattice.ActionNoted{Action: action, Verdict: verdict, Detail: detail, Of: new(runstate.AttemptOf(&call))}
	switch verdict {
	case lattice.Allow:
		noted.Begun = true
		if err := e.storeBegun(noted); err != nil {
			return noted, err
		}
		return e.performAction(ctx, noted)
	case lattice.Ask:
		noted.Detail = "not done: it needs a person's approval, and the skill did not wait for one"
	case lattice.Deny:
	}
	return noted, nil
}

// storeBegun returns nil when the fact that an action is about to be performed is on the disk.
func (e effect) storeBegun(noted lattice.ActionNoted) error {
	begun := begunAction{noted, make(chan error, 1)}
	e.mail <- mail{command: e.command.ID, begun: &begun}
	return <-begun.stored
}

// performAction performs an action whose begin is on the disk, and notes its outcome.
func (e effect) performAction(ctx context.Context, noted lattice.ActionNoted) (lattice.ActionNoted, error) {
	noted.Begun = false
	_, err := e.r.deps.Actor.Do(ctx, noted.Action)
	var refusal *lattice.Refusal
	switch {
	case errors.As(err, &refusal):
		noted.Detail = refusal.Fault.Message
	case err != nil:
		return noted, err
	default:
		noted.Detail = "done"
	}
	return noted, nil
}

// freeRequest reads a well-formed ACTION_REQUEST of this very call that does not block.
func freeRequest(call lattice.Call, ev lattice.Event) (protocol.ActionRequest, bool) {
	if ev.Event.Type != protocol.TypeActionRequest || ev.CallID != call.ID || len(ev.Problems) > 0 || len(ev.Flags) > 0 {
		return protocol.ActionRequest{}, false
	}
	payload, err := ev.Event.Open()
	if err != nil {
		return protocol.ActionRequest{}, false
	}
	req, ok := payload.(protocol.ActionRequest)
	return req, ok && !req.Blocking
}

// newEventEntry makes the log's record of an observation. Dedupe keys are unique within a sprite only.
func (e effect) newEventEntry(ev lattice.Event) lattice.Entry {
	out := lattice.Entry{
		Run: e.command.Call.RunID, At: e.r.deps.Now(), Kind: lattice.EntryEvent, Type: string(ev.Event.Type), Body: ev.Event.Raw,
		Sprite: ev.Sprite, CallID: ev.CallID, Problems: ev.Problems, Flags: ev.Flags,
	}
	if ev.Dedupe != "" {
		out.Dedupe = ev.Sprite + "/" + ev.Dedupe
	}
	return out
}

// askModel sends the request of e to the model.
func (e effect) askModel(ctx context.Context) ([]lattice.Fact, error) {
	if e.r.deps.Model == nil {
		return nil, &lattice.Refusal{Fault: protocol.Fault{
			Code: "no_models", Message: "the flow asks models, and none are known here", Hint: "name them in the settings, as [models.SMALL_EXEC]",
		}}
	}
	q := *e.command.Model
	q.Command, q.Again = e.command.ID, e.command.Again
	reply, err := e.r.deps.Model.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return []lattice.Fact{q.Answered(e.command.ID, reply)}, nil
}

// attest has a verification signed.
func (e effect) attest(ctx context.Context) ([]lattice.Fact, error) {
	attested, err := e.r.deps.Attester.Attest(ctx, *e.command.Verification)
	attested.CommandID = e.command.ID
	return []lattice.Fact{attested}, err
}
