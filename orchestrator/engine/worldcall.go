package engine

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// askWorld waits for a person before a call of class world, unless the run was started with the skill's name among those
// that it may call. It reports whether it waits.
func (m *machine) askWorld() bool {
	v := m.at.Visit
	call := v.Call
	if !m.s.AskWorld || call.Class != manifests.ClassWorld || call.Resume != nil || v.Approved || slices.Contains(m.s.ApproveWorld, call.Skill) {
		return false
	}
	w := lattice.Wait{
		Kind: lattice.WaitWorld, Prompt: m.at.Node + " calls " + call.Skill + ", which acts outside of the sprite", Reason: "world_call",
		Choices: []string{string(lattice.Approve), string(lattice.Reject)}, Details: call.Input,
	}
	if pair, ok := m.s.Pairs[call.Sprite]; ok {
		w.CheckpointID = pair.CheckpointID
	}
	m.open(w)
	return true
}

func (m *machine) worldAnswered(w lattice.Wait, f lattice.Answered) error {
	if f.Decision == lattice.Answer {
		return fmt.Errorf("%w: the call of %s is approved or rejected, not answered", ErrAnswer, w.Node)
	}
	m.closeWait(w)
	if f.Decision == lattice.Approve {
		m.at.Visit.Approved = true
		m.dispatch()
		return nil
	}
	bad := failure(ir.FailHumanRejected, "the call of %s was rejected by %s", m.at.Visit.Call.Skill, f.By)
	if f.Comments != "" {
		bad.Message += ": " + f.Comments
	}
	bad.Data = details(map[string]any{"by": f.By, "comments": f.Comments})
	m.leaveQueue()
	m.leaveCopy(m.p.Node(m.at.Node), false)
	m.fallTo(bad)
	return nil
}
