package engine

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
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
	t.LeaveSettling()
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

// resumeFromRecord resumes the current call with the outcome of its action before the loss of power, if that is recorded.
func (t callOp) resumeFromRecord(action string) bool {
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
