package engine

import (
	"fmt"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// callLost repeats a call whose stream broke off, on restored files if it is of class sprite and its skill does not continue. A
// person settles the outcome of a call of class world (DESIGN 14), and on_loss can have a call fail that was cut off under lattice's eyes.
func (t callOp) callLost(c lattice.Command, f lattice.CallLost) {
	v := t.Visit
	if v.Call.Class == manifests.ClassWorld {
		t.askOutcome(f.Detail)
		return
	}
	v.Losses++
	if node := t.Run.Program.Node(t.Node); f.Watched && node.OnLoss == ir.LossFails {
		if v.Before != nil && v.Call.Class == manifests.ClassSprite && !f.Continues && !t.runsInCopy() {
			v.Cut = f.Detail // half of the call's work, such as a lock of git, stands in the way of the next one
			t.Issue(machine.Restore(*v.Before))
			return
		}
		t.failCut(f.Detail)
		return
	}
	if f.Continues {
		t.sendAgain(c.Sprite)
		return
	}
	if v.Before != nil && (v.Call.Class == manifests.ClassSprite || v.Call.Resume != nil) {
		t.Issue(machine.Restore(*v.Before))
		return
	}
	t.sendAgain(c.Sprite)
}

// failCut fails an attempt whose call was cut off.
func (t callOp) failCut(detail string) {
	v := t.Visit
	v.Cut = ""
	t.Run.State.LeaveBarrier(t.Path)
	t.releaseCopy(t.Run.Program.Node(t.Node), false)
	t.FailAttempt(machine.Failf(expr.FailToolUnavailable, "%s was cut off in sprite %s: %s", v.Call.Skill, v.Call.Sprite, detail))
}

// askOutcome asks a person for the outcome of the current call, which is of class world.
func (t callOp) askOutcome(detail string) {
	t.OpenWait(lattice.Wait{
		Kind:     lattice.WaitUnknown,
		Prompt:   fmt.Sprintf("%s was cut off and may or may not have happened: %s", t.Visit.Call.Skill, detail),
		Reason:   "unknown_outcome",
		Choices:  []string{"done", "retry", "fail"},
		Expected: map[string]string{"outcome": "string", "result": "map"},
		Optional: []string{"result"},
	})
}

// sendAgain dispatches the same attempt once more, unless it was lost too often.
func (t callOp) sendAgain(sprite string) {
	if v := t.Visit; v.Losses >= maxLosses {
		t.Run.State.LeaveBarrier(t.Path)
		t.FailAttempt(machine.Failf(expr.FailToolUnavailable, "%s was cut off %d times in sprite %s", v.Call.Skill, v.Losses, sprite))
		return
	}
	t.Dispatch()
}
