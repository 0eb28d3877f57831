package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// A HUMAN node may name calls of class world that follow it (approves). Its question shows the inputs that these calls have
// at that time. An approval allows each call once, with that input, and as long as no other call may have changed files.
// Where one of these differs, the call asks for an approval of its own, and says why.

// planCalls returns the calls that an approval of the current question allows. A call whose arguments cannot be evaluated
// yet is not among them.
func (t humanOp) planCalls(node *ir.Node) (calls []lattice.PlannedCall) {
	m := t.Run
	m.State.Planned = slices.DeleteFunc(m.State.Planned, func(p runstate.Planned) bool { // this question replaces earlier ones
		return p.Path == t.Path && slices.Contains(node.Approves, p.Node)
	})
	for _, id := range node.Approves {
		called := m.Program.Node(id)
		args, f := evalArguments(called, t.Scope(nil))
		if f != nil {
			continue
		}
		input, err := expr.Marshal(args)
		if err != nil {
			continue
		}
		if class, _ := m.Program.Class(called, input); class == manifests.ClassWorld {
			calls = append(calls, lattice.PlannedCall{Node: id, Skill: called.Tool, Input: input})
		}
	}
	return calls
}

// takePlanned uses up the approval that a HUMAN node gave to the current call. It reports whether the approval is valid,
// and else why an earlier one is not.
func (t callOp) takePlanned() (why string, ok bool) {
	m, call := t.Run, t.Visit.Call
	i := slices.IndexFunc(m.State.Planned, func(p runstate.Planned) bool { return p.Node == t.Node && p.Path == t.Path })
	if i < 0 {
		return "", false
	}
	p := m.State.Planned[i]
	m.State.Planned = slices.Delete(m.State.Planned, i, i+1)
	switch {
	case !bytes.Equal(p.Input, call.Input):
		return fmt.Sprintf("; %s approved it with other inputs", p.By), false
	case p.Void != "":
		return fmt.Sprintf("; %s may have changed files since %s approved it", p.Void, p.By), false
	}
	return "", true
}

// voidPlanned voids the approvals given beforehand when the current call, which none of them allowed, may change files.
func (t callOp) voidPlanned() {
	for i := range t.Run.State.Planned {
		if p := &t.Run.State.Planned[i]; p.Void == "" {
			p.Void = t.Node
		}
	}
}
