package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// takeRecord takes the record of the current attempt out of the state, if there is one: of its call, or with action of the
// next action that it asked for.
func (t callOp) takeRecord(action string) (lattice.Record, bool) {
	m := t.Run
	of := runstate.AttemptOf(t.Visit.Call)
	i := slices.IndexFunc(m.State.Records, func(r lattice.Record) bool { return r.Of == of && r.Action == action && r.Noted == nil })
	if i < 0 {
		return lattice.Record{}, false
	}
	found := m.State.Records[i]
	m.State.Records = slices.Delete(slices.Clone(m.State.Records), i, i+1)
	return found, true
}

// finishFromRecord ends the current call, one of class world, as it ended before the power was lost. It reports whether
// that is known.
func (t callOp) finishFromRecord() bool {
	call := t.Visit.Call
	if call.Class != manifests.ClassWorld || call.Resume != nil {
		return false
	}
	r, found := t.takeRecord("")
	if !found {
		return false
	}
	if !t.Visit.Approved { // else the approval that was given beforehand is used up
		t.takePlanned()
	}
	t.Run.State.LeaveBarrier(t.Path)
	if r.Finished == nil {
		if pair, ok := t.Run.State.Pairs[call.Sprite]; ok {
			t.Visit.Before = &pair
		}
		t.askOutcome(r.Lost)
		return true
	}
	if err := t.finishCall(*r.Finished); err != nil {
		t.Run.Err = err
	}
	return true
}

// ResumeFromRecord resumes the current call with the outcome of its action before the loss of power, if that is recorded.
func (t callOp) ResumeFromRecord(action string) bool {
	r, found := t.takeRecord(action)
	if !found {
		return false
	}
	if r.Do != nil {
		t.Issue(lattice.Command{Kind: lattice.DoAction, Sprite: t.Visit.Call.Sprite, Action: r.Do})
		return true
	}
	inputs, err := machine.DecodeObject(r.Resume.Inputs)
	if err != nil {
		t.Run.Err = fmt.Errorf("record of %s: %w", action, err)
		return true
	}
	t.resumeCall(inputs, r.Resume.Context.AnsweredBy, r.Resume.Context.AnsweredAt)
	return true
}

// askApproval waits for a person before a call of class world, unless a HUMAN node's approval allows the call or the run was
// started with the skill's name among those that it may call. It reports whether it waits.
func (t callOp) askApproval() bool {
	m := t.Run
	v := t.Visit
	call := v.Call
	if call.Class != manifests.ClassWorld || call.Resume != nil || v.Approved {
		return false
	}
	why, planned := t.takePlanned()
	if planned {
		v.Approved, v.Planned = true, true
		return false
	}
	if !m.State.AskWorld || slices.Contains(m.State.ApproveWorld, call.Skill) {
		return false
	}
	w := lattice.Wait{
		Kind: lattice.WaitWorld, Prompt: t.Node + " calls " + call.Skill + ", which acts outside of the sprite" + why, Reason: "world_call",
		Choices: []string{string(lattice.Approve), string(lattice.Reject)}, Details: call.Input,
	}
	if pair, ok := m.State.Pairs[call.Sprite]; ok {
		w.CheckpointID = pair.CheckpointID
	}
	t.OpenWait(w)
	return true
}

func (t callOp) approvalAnswered(w lattice.Wait, f lattice.Answered) error {
	if f.Decision == lattice.Answer {
		return fmt.Errorf("%w: the call of %s is approved or rejected, not answered", machine.ErrAnswer, w.Node)
	}
	t.CloseWait(w)
	if f.Decision == lattice.Approve {
		t.Visit.Approved = true
		t.Dispatch()
		return nil
	}
	bad := machine.Failf(expr.FailHumanRejected, "the call of %s was rejected by %s", t.Visit.Call.Skill, f.By)
	if f.Comments != "" {
		bad.Message += ": " + f.Comments
	}
	bad.Data = encodeDetails(map[string]any{"by": f.By, "comments": f.Comments})
	t.Run.State.LeaveBarrier(t.Path)
	t.releaseCopy(t.Run.Program.Node(t.Node), false)
	t.FailVisit(bad)
	return nil
}

// callBlocked stops the run where a call asked in the way of the time before v1. Such a program does not wait: nothing
// of this run goes on, and the answer begins another one.
func (t callOp) callBlocked(f lattice.CallBlocked) {
	kind, status := lattice.WaitQuestion, lattice.BlockedWaitingForUser
	if f.Question.Kind == protocol.KindBlocked {
		kind, status = lattice.WaitBlocked, lattice.Blocked
	}
	t.Run.State.Waits = []lattice.Wait{{
		ID:   "wait_" + t.VisitKey("wait", string(kind)),
		Kind: kind, Node: t.Node, Path: t.Path, Prompt: f.Question.Prompt, Reason: f.Question.Kind,
		Choices: f.Question.Choices, Default: f.Question.Default, QuestionID: f.Question.ID,
		Expected: map[string]string{protocol.AnswerName: "string"},
	}}
	t.Run.StopRun(status)
}

// callSuspended takes WAITING from a skill. Policy or a person decides with which inputs the call is resumed.
func (t callOp) callSuspended(c lattice.Command, f lattice.CallSuspended) error {
	m := t.Run
	if f.CheckpointID == "" {
		return errors.New("CallSuspended without a checkpoint id; the driver takes one before it reports")
	}
	if !m.CountStep() { // a skill that waits again and again is a loop, too
		return nil
	}
	if t.HasSiblings() {
		t.Visit.Suspended = &runstate.Suspension{CallID: f.CallID, CheckpointID: f.CheckpointID}
		t.QueueSettling(f)
		return nil
	}
	m.State.Pairs[c.Sprite] = lattice.Pair{Sprite: c.Sprite, CheckpointID: f.CheckpointID}
	m.State.Dirty[c.Sprite] = false
	t.requestInputs(f)
	return nil
}

// requestInputs asks for the inputs that the current call waits for. The call is resumed with the checkpoint id of its own
// WAITING, the only one in its journal; the files may be those of a later checkpoint, the pair of the sprite.
func (t callOp) requestInputs(f lattice.CallSuspended) {
	sprite := t.Visit.Call.Sprite
	t.Visit.Suspended = &runstate.Suspension{CallID: f.CallID, CheckpointID: f.CheckpointID, Action: f.Action}
	if f.Action != nil && t.ResumeFromRecord(f.Action.Name) {
		return
	}
	if f.Action == nil {
		t.OpenWait(lattice.Wait{
			Kind: lattice.WaitSkill, Prompt: f.Reason, Reason: f.Reason, Expected: f.Expected, CheckpointID: f.CheckpointID, ResumeAt: f.ResumeAt,
		})
		if f.ResumeAt != "" {
			t.Issue(lattice.Command{Kind: lattice.DoTimer, Until: f.ResumeAt})
		}
		return
	}
	switch f.Verdict {
	case lattice.Allow:
		t.Issue(lattice.Command{Kind: lattice.DoAction, Sprite: sprite, Action: f.Action})
	case lattice.Deny:
		reason := cmp.Or(f.DenyReason, "policy denies "+f.Action.Name)
		t.resumeCall(encodeRefusal(f.Action.Name, "denied", reason), "", "")
	default: // ask, and whatever else a driver may say
		w := lattice.Wait{
			Kind: lattice.WaitAction, Prompt: "the sprite asks for " + f.Action.Name, Reason: f.Reason,
			Choices: []string{string(lattice.Approve), string(lattice.Reject)}, CheckpointID: f.CheckpointID, Action: f.Action,
		}
		if f.Action.ByHand { // who did it may say where it can be seen
			w.Prompt += ", which a person must do"
			w.Choices, w.Expected, w.Optional = nil, map[string]string{"url": "string"}, []string{"url"}
		}
		t.OpenWait(w)
	}
}

// Decided takes a person's decision on a wait of the current call.
func (t callOp) Decided(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	switch w.Kind {
	case lattice.WaitAction:
		return t.actionAnswered(w, f, inputs)
	case lattice.WaitSkill:
		t.CloseWait(w)
		if f.Decision != lattice.Answer {
			inputs["approved"], inputs["comments"] = f.Decision == lattice.Approve, f.Comments
		}
		t.resumeCall(inputs, f.By, f.At)
		return nil
	case lattice.WaitUnknown:
		return t.outcomeAnswered(w, f, inputs)
	case lattice.WaitWorld:
		return t.approvalAnswered(w, f)
	default:
		return fmt.Errorf("wait %s has an unknown kind %q", w.ID, w.Kind)
	}
}

// waitedLongEnough resumes the current call at the time that it waited for.
func (t callOp) waitedLongEnough() {
	i := slices.IndexFunc(t.Run.State.Waits, func(w lattice.Wait) bool { return w.Path == t.Path })
	t.CloseWait(t.Run.State.Waits[i])
	t.resumeCall(map[string]any{}, "", "")
}

func (t callOp) actionAnswered(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	switch {
	case f.Decision == lattice.Approve && w.ByHand():
		t.CloseWait(w)
		t.Visit.Acted = true
		t.resumeCall(map[string]any{"approved": true, "comments": f.Comments}, f.By, f.At)
	case f.Decision == lattice.Answer && w.ByHand():
		t.CloseWait(w)
		t.Visit.Acted = true
		t.resumeCall(map[string]any{"ok": true, "action": w.Action.Name, "result": inputs}, f.By, f.At)
	case f.Decision == lattice.Approve:
		t.CloseWait(w)
		asked := *t.Visit.Suspended
		asked.By, asked.At = f.By, f.At
		t.Visit.Suspended = &asked
		t.Issue(lattice.Command{Kind: lattice.DoAction, Sprite: w.Action.Sprite, Action: w.Action})
	case f.Decision == lattice.Reject:
		t.CloseWait(w)
		message := f.Comments
		if message == "" {
			message = fmt.Sprintf("%s was rejected by %s", w.Action.Name, f.By)
		}
		t.resumeCall(encodeRefusal(w.Action.Name, "rejected", message), f.By, f.At)
	default:
		return fmt.Errorf("%w: %s is approved or rejected, not answered", machine.ErrAnswer, w.Action.Name)
	}
	return nil
}

func (t callOp) actionDone(c lattice.Command, f lattice.ActionDone) error {
	var result any
	if len(f.Result) > 0 {
		v, err := expr.Decode(f.Result)
		if err != nil {
			return fmt.Errorf("result of ActionDone: %w", err)
		}
		result = v
	}
	asked := t.Visit.Suspended
	switch {
	case f.OK:
		t.Visit.Acted = true
		t.resumeCall(map[string]any{"ok": true, "action": c.Action.Name, "result": result}, asked.By, asked.At)
	case f.Fault != nil:
		t.resumeCall(encodeRefusal(c.Action.Name, f.Fault.Code, f.Fault.Message), asked.By, asked.At)
	default:
		t.resumeCall(encodeRefusal(c.Action.Name, "failed", c.Action.Name+" failed"), asked.By, asked.At)
	}
	return nil
}

// resumeCall restores the files of the WAITING checkpoint; when they are there, the same call goes out again with inputs.
func (t callOp) resumeCall(inputs map[string]any, by, at string) {
	m := t.Run
	raw, err := expr.Marshal(inputs)
	if err != nil {
		m.Err = fmt.Errorf("encode resume inputs: %w", err)
		return
	}
	v := t.Visit
	call := *v.Call
	call.Resume = &protocol.Resume{
		WorkItemID: m.State.WorkItem, CheckpointID: v.Suspended.CheckpointID, Inputs: raw,
		Context: protocol.ResumeContext{
			RunID: m.State.RunID, CallID: v.Suspended.CallID, Node: t.Node, AnsweredBy: by, AnsweredAt: at,
		},
	}
	v.Call, v.Suspended, v.Losses = &call, nil, 0
	t.Issue(machine.Restore(m.State.Pairs[call.Sprite]))
}

// outcomeAnswered takes a person's answer about a world call whose outcome is unknown.
func (t callOp) outcomeAnswered(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	m := t.Run
	outcome, _ := inputs["outcome"].(string)
	result, given := inputs["result"]
	if !given || result == nil {
		result = map[string]any{}
	}
	if f.Decision != lattice.Answer || !slices.Contains(w.Choices, outcome) {
		return fmt.Errorf("%w: the outcome is missing: answer outcome=done, outcome=retry or outcome=fail", machine.ErrAnswer)
	}
	if _, ok := result.(map[string]any); !ok {
		return fmt.Errorf("%w: result is not an object", machine.ErrAnswer)
	}
	if outcome == "done" && m.State.Undoing == nil {
		node := m.Program.Node(w.Node)
		for port := range node.Outputs {
			if _, bad := machine.ReadPort(m.Program, node, port, result, nil); bad != nil {
				return fmt.Errorf("%w: outcome=done needs a result with the ports that the flow reads from %s: %v", machine.ErrAnswer, node.ID,
					slices.Sorted(maps.Keys(node.Outputs)))
			}
		}
	}
	t.CloseWait(w)
	v := t.Visit
	switch outcome {
	case "done":
		t.completeCall(result)
	case "fail":
		t.FailVisit(machine.Failf(expr.FailTool, "%s was cut off; %s settled it as failed", v.Call.Skill, f.By))
	default: // retry: a new attempt, because the id of the old one belongs to the call that was cut off
		v.Attempt++
		v.Losses = 0
		call := *v.Call
		call.Attempt, call.Resume = v.Attempt, nil
		v.Call = &call
		t.Issue(machine.Restore(*v.Before))
	}
	return nil
}

// encodeRefusal returns the inputs with which a skill is resumed when its action was not done.
func encodeRefusal(action, code, message string) map[string]any {
	return map[string]any{"ok": false, "action": action, "error": map[string]any{"code": code, "message": message}}
}

// encodeDetails encodes details for people. Decoded JSON has no values that cannot be encoded.
func encodeDetails(v map[string]any) json.RawMessage {
	if len(v) == 0 {
		return nil
	}
	raw, err := expr.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
