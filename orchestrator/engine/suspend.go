package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// callSuspended is a skill's WAITING: policy or a person decides what it is resumed with.
func (m *machine) callSuspended(f lattice.CallSuspended) error {
	if f.CheckpointID == "" {
		return fmt.Errorf("CallSuspended without a checkpoint id; the driver takes one before it reports")
	}
	c, err := m.answer(f.CommandID, lattice.DoCall)
	if err != nil {
		return err
	}
	if !m.countStep() { // a skill that waits for ever is a loop, too
		return nil
	}
	if m.besides() {
		m.at.Visit.Suspended = &Suspension{CallID: f.CallID, CheckpointID: f.CheckpointID}
		m.queue(f)
		return nil
	}
	m.s.Pairs[c.Sprite] = lattice.Pair{Sprite: c.Sprite, CheckpointID: f.CheckpointID}
	m.s.Dirty[c.Sprite] = false
	m.suspended(f)
	return nil
}

// suspended asks for what the current call waits for. It is resumed by the checkpoint id of its own WAITING, which is the
// one that its journal knows; the files may be those of a later checkpoint, the sprite's pair.
func (m *machine) suspended(f lattice.CallSuspended) {
	sprite := m.at.Visit.Call.Sprite
	m.at.Visit.Suspended = &Suspension{CallID: f.CallID, CheckpointID: f.CheckpointID, Action: f.Action}
	if f.Action != nil && m.resumeFromRecord(f.Action.Name) {
		return
	}
	if f.Action == nil {
		m.open(lattice.Wait{
			Kind: lattice.WaitSkill, Prompt: f.Reason, Reason: f.Reason, Expected: f.Expected, CheckpointID: f.CheckpointID,
		})
		return
	}
	switch f.Verdict {
	case lattice.Allow:
		m.issue(lattice.Command{Kind: lattice.DoAction, Sprite: sprite, Action: f.Action})
	case lattice.Deny:
		reason := f.DenyReason
		if reason == "" {
			reason = "policy denies " + f.Action.Name
		}
		m.resume(refusal(f.Action.Name, "denied", reason), "", "")
	default: // ask, and whatever else a driver may say
		w := lattice.Wait{
			Kind: lattice.WaitAction, Prompt: "the sprite asks for " + f.Action.Name, Reason: f.Reason,
			Choices: []string{string(lattice.Approve), string(lattice.Reject)}, CheckpointID: f.CheckpointID, Action: f.Action,
		}
		if f.Action.ByHand { // who did it may say where it can be seen
			w.Prompt += ", which a person must do"
			w.Choices, w.Expected, w.Optional = nil, map[string]string{"url": "string"}, []string{"url"}
		}
		m.open(w)
	}
}

// open asks a person; the run waits.
func (m *machine) open(w lattice.Wait) {
	m.s.Serial++
	w.Node, w.Path = m.at.Node, m.at.path
	w.ID = "wait_" + m.visitKey("wait", string(w.Kind), fmt.Sprint(m.s.Serial))
	m.s.Waits = append(m.s.Waits, w)
	m.become(lattice.Waiting)
}

// closeWait ends a wait and the timer that may run against it, and goes on in its thread. People may have written in the
// sprite meanwhile.
func (m *machine) closeWait(w lattice.Wait) {
	m.at = m.thread(w.Path)
	m.changed(m.sprite())
	m.s.Waits = slices.DeleteFunc(m.s.Waits, func(o lattice.Wait) bool { return o.ID == w.ID })
	m.s.Pending = slices.DeleteFunc(m.s.Pending, func(c lattice.Command) bool { return c.Kind == lattice.DoTimer && m.at.issued(c) })
	m.become(lattice.Running)
}

func (m *machine) answered(f lattice.Answered) error {
	w, ok := m.s.wait(f.WaitID)
	if !ok {
		return fmt.Errorf("%w: wait %s is not open", ErrStale, f.WaitID)
	}
	inputs, err := object(f.Inputs)
	if err != nil {
		return fmt.Errorf("%w: inputs: %v", ErrAnswer, err)
	}
	switch f.Decision {
	case lattice.Approve, lattice.Reject, lattice.Answer:
	default:
		return fmt.Errorf("%w: decision %q; use approve, reject or answer", ErrAnswer, f.Decision)
	}
	switch w.Kind {
	case lattice.WaitAction:
		return m.actionAnswered(w, f, inputs)
	case lattice.WaitSkill:
		m.closeWait(w)
		if f.Decision != lattice.Answer {
			inputs["approved"], inputs["comments"] = f.Decision == lattice.Approve, f.Comments
		}
		m.resume(inputs, f.By, f.At)
	case lattice.WaitHuman:
		return m.humanAnswered(w, f, inputs)
	case lattice.WaitUnknown:
		return m.settled(w, f, inputs)
	case lattice.WaitWorld:
		return m.worldAnswered(w, f)
	case lattice.WaitQuestion, lattice.WaitBlocked:
		return m.blockedAnswered(w, f, inputs)
	default:
		return fmt.Errorf("wait %s has an unknown kind %q", w.ID, w.Kind)
	}
	return nil
}

func (m *machine) actionAnswered(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	switch {
	case f.Decision == lattice.Approve && w.ByHand():
		m.closeWait(w)
		m.at.Visit.Acted = true
		m.resume(map[string]any{"approved": true, "comments": f.Comments}, f.By, f.At)
	case f.Decision == lattice.Answer && w.ByHand():
		m.closeWait(w)
		m.at.Visit.Acted = true
		m.resume(map[string]any{"ok": true, "action": w.Action.Name, "result": inputs}, f.By, f.At)
	case f.Decision == lattice.Approve:
		m.closeWait(w)
		asked := *m.at.Visit.Suspended
		asked.By, asked.At = f.By, f.At
		m.at.Visit.Suspended = &asked
		m.issue(lattice.Command{Kind: lattice.DoAction, Sprite: w.Action.Sprite, Action: w.Action})
	case f.Decision == lattice.Reject:
		m.closeWait(w)
		message := f.Comments
		if message == "" {
			message = fmt.Sprintf("%s was rejected by %s", w.Action.Name, f.By)
		}
		m.resume(refusal(w.Action.Name, "rejected", message), f.By, f.At)
	default:
		return fmt.Errorf("%w: %s is approved or rejected, not answered", ErrAnswer, w.Action.Name)
	}
	return nil
}

func (m *machine) actionDone(f lattice.ActionDone) error {
	var result any
	if len(f.Result) > 0 {
		v, err := ir.Decode(f.Result)
		if err != nil {
			return fmt.Errorf("result of ActionDone: %w", err)
		}
		result = v
	}
	c, err := m.answer(f.CommandID, lattice.DoAction)
	if err != nil {
		return err
	}
	asked := m.at.Visit.Suspended
	switch {
	case f.OK:
		m.at.Visit.Acted = true
		m.resume(map[string]any{"ok": true, "action": c.Action.Name, "result": result}, asked.By, asked.At)
	case f.Fault != nil:
		m.resume(refusal(c.Action.Name, f.Fault.Code, f.Fault.Message), asked.By, asked.At)
	default:
		m.resume(refusal(c.Action.Name, "failed", c.Action.Name+" failed"), asked.By, asked.At)
	}
	return nil
}

// resume restores the files of the WAITING checkpoint; when they are there, the same call goes out again with inputs.
func (m *machine) resume(inputs map[string]any, by, at string) {
	raw, err := ir.Marshal(inputs)
	if err != nil {
		m.err = fmt.Errorf("encode resume inputs: %w", err)
		return
	}
	v := m.at.Visit
	call := *v.Call
	call.Resume = &protocol.Resume{
		WorkItemID: m.s.WorkItem, CheckpointID: v.Suspended.CheckpointID, Inputs: raw,
		Context: protocol.ResumeContext{
			RunID: m.s.RunID, CallID: v.Suspended.CallID, Node: m.at.Node, AnsweredBy: by, AnsweredAt: at,
		},
	}
	v.Call, v.Suspended, v.Losses = &call, nil, 0
	m.restore(m.s.Pairs[call.Sprite])
}

// settled is a person's word on a world call whose outcome nobody knows.
func (m *machine) settled(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	outcome, _ := inputs["outcome"].(string)
	result, given := inputs["result"]
	if !given || result == nil {
		result = map[string]any{}
	}
	if f.Decision != lattice.Answer || !slices.Contains(w.Choices, outcome) {
		return fmt.Errorf("%w: say what became of it: answer outcome=done, outcome=retry or outcome=fail", ErrAnswer)
	}
	if _, ok := result.(map[string]any); !ok {
		return fmt.Errorf("%w: result is no object", ErrAnswer)
	}
	if outcome == "done" && m.s.Undoing == nil {
		node := m.p.Node(w.Node)
		for port := range node.Outputs {
			if _, bad := m.port(node, port, result); bad != nil {
				return fmt.Errorf("%w: outcome=done needs result with what the flow reads from %s: %v", ErrAnswer, node.ID,
					slices.Sorted(maps.Keys(node.Outputs)))
			}
		}
	}
	m.closeWait(w)
	v := m.at.Visit
	switch outcome {
	case "done":
		m.callDone(result)
	case "fail":
		m.fallTo(failure(ir.FailTool, "%s was cut off; %s settled it as failed", v.Call.Skill, f.By))
	default: // retry: a new attempt, because the old id stands for what was cut off, on the files from before it
		v.Attempt++
		v.Losses = 0
		call := *v.Call
		call.Attempt, call.Resume = v.Attempt, nil
		v.Call = &call
		m.restore(*v.Before)
	}
	return nil
}

// refusal is what a skill is resumed with when its action was not done.
func refusal(action, code, message string) map[string]any {
	return map[string]any{"ok": false, "action": action, "error": map[string]any{"code": code, "message": message}}
}

// details encodes what a person should see; values that cannot be encoded do not occur in decoded JSON.
func details(v map[string]any) json.RawMessage {
	if len(v) == 0 {
		return nil
	}
	raw, err := ir.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
