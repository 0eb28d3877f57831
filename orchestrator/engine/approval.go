package engine

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// askApproval waits for a person before a call of class world, unless the run was started with the skill's name among those
// that it may call. It reports whether it waits.
func (t callOp) askApproval() bool {
	m := t.Run
	v := t.Visit
	call := v.Call
	if !m.State.AskWorld || call.Class != manifests.ClassWorld || call.Resume != nil || v.Approved || slices.Contains(m.State.ApproveWorld, call.Skill) {
		return false
	}
	w := lattice.Wait{
		Kind: lattice.WaitWorld, Prompt: t.Node + " calls " + call.Skill + ", which acts outside of the sprite", Reason: "world_call",
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
	bad := machine.Failf(ir.FailHumanRejected, "the call of %s was rejected by %s", t.Visit.Call.Skill, f.By)
	if f.Comments != "" {
		bad.Message += ": " + f.Comments
	}
	bad.Data = encodeDetails(map[string]any{"by": f.By, "comments": f.Comments})
	t.LeaveSettling()
	t.releaseCopy(t.Run.Program.Node(t.Node), false)
	t.FailVisit(bad)
	return nil
}
