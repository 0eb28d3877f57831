package machine

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// AdvanceNode continues the node of t, which runs iterations.
func (t *Thread) AdvanceNode() {
	node := t.Run.Program.Node(t.Node)
	if t.Visit.Map.Expired {
		return // its iterations are being dropped
	}
	t.operation().(container).Advance(node)
}

// DropIteration removes the commands and waits of an iteration and of those inside it. Concurrent iterations only read, and
// an overdue one with a call that may have changed the world is not dropped, so that no effect is lost unnoticed.
func (t *Thread) DropIteration() {
	m := t.Run
	outer := t.Path
	command := func(c lattice.Command) bool { return runstate.Within(c.Path, outer) }
	m.State.Pending = slices.DeleteFunc(m.State.Pending, command)
	m.commands = slices.DeleteFunc(m.commands, command)
	m.State.Waits = slices.DeleteFunc(m.State.Waits, func(w lattice.Wait) bool { return runstate.Within(w.Path, outer) })
	if m.State.Status == lattice.Waiting && len(m.State.Waits) == 0 {
		m.setStatus(lattice.Running)
	}
	if !t.Iteration.Ended {
		m.State.Started = append(m.State.Started, outer+lattice.IterationDropped)
	}
	path := func(p string) bool { return runstate.Within(p, outer) }
	m.State.Overdue = slices.DeleteFunc(m.State.Overdue, path)
	m.State.Held, m.State.Settling = slices.DeleteFunc(m.State.Held, path), slices.DeleteFunc(m.State.Settling, path)
	m.ready = slices.DeleteFunc(m.ready, func(e entry) bool { return runstate.Within(e.thread.Path, outer) })
}

// completeIteration ends the current iteration after its last node, whose output is out.
func (t *Thread) completeIteration(node *ir.Node, out any) {
	m := t.Run
	owner := m.Program.Node(t.up.Node)
	inner := m.Program.Inner(owner, t.Iteration.Index)
	result, f := out, (*expr.Failure)(nil)
	switch {
	case node.Op == ir.OpEnd && node.Output != nil: // out is its output
	case inner.Result != nil:
		result, f = expr.Eval(inner.Result, t.Scope(nil))
	case t.Iteration.Frame != nil:
		result = t.Iteration.Frame.Vars
	}
	if f == nil {
		f = t.accountResult(result)
	}
	if f != nil {
		f.Node, f.Attempt = node.ID, t.Visit.Attempt
		f.Message = "result: " + f.Message
		t.failIteration(f)
		return
	}
	t.Iteration.Result = result
	if owner.KeepSprite && t.Iteration.Sprite != "" {
		m.State.Kept = append(m.State.Kept, t.Iteration.Sprite)
	}
	t.endIteration()
}

func (t *Thread) failIteration(f *expr.Failure) {
	t.Iteration.Failure = f
	if full := t.accountResult(f); full != nil {
		full.Node, full.Attempt = f.Node, f.Attempt
		t.Iteration.Failure = full
	}
	t.endIteration()
}

// accountResult adds the size of a result to that of the node, and compares the state with max_state_bytes.
func (t *Thread) accountResult(v any) *expr.Failure {
	raw, err := expr.Marshal(v)
	if err != nil {
		return Failf(expr.FailStateType, "encode: %v", err)
	}
	mp := t.up.Visit.Map
	mp.Bytes += len(raw)
	t.Tmp = map[string]any{}
	f := t.Run.checkSize()
	if f != nil {
		mp.Bytes -= len(raw)
	}
	return f
}

func (t *Thread) endIteration() {
	t.Iteration.Ended = true
	end := lattice.IterationDone
	if t.Iteration.Failure != nil {
		end = lattice.IterationFailed
	}
	t.Run.State.Started = append(t.Run.State.Started, t.Path+end)
	t.Visit, t.Tmp, t.Err = nil, map[string]any{}, nil
	t.Iteration.Frame = nil
	t.up.AdvanceNode()
}
