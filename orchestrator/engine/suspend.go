package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

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
	if f.Action != nil && t.resumeFromRecord(f.Action.Name) {
		return
	}
	if f.Action == nil {
		t.OpenWait(lattice.Wait{
			Kind: lattice.WaitSkill, Prompt: f.Reason, Reason: f.Reason, Expected: f.Expected, CheckpointID: f.CheckpointID,
		})
		return
	}
	switch f.Verdict {
	case lattice.Allow:
		t.Issue(lattice.Command{Kind: lattice.DoAction, Sprite: sprite, Action: f.Action})
	case lattice.Deny:
		reason := f.DenyReason
		if reason == "" {
			reason = "policy denies " + f.Action.Name
		}
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
	t.RestoreFiles(m.State.Pairs[call.Sprite])
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
			if _, bad := t.ReadPort(node, port, result, nil); bad != nil {
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
		t.FailVisit(machine.Failf(ir.FailTool, "%s was cut off; %s settled it as failed", v.Call.Skill, f.By))
	default: // retry: a new attempt, because the id of the old one belongs to the call that was cut off
		v.Attempt++
		v.Losses = 0
		call := *v.Call
		call.Attempt, call.Resume = v.Attempt, nil
		v.Call = &call
		t.RestoreFiles(*v.Before)
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
