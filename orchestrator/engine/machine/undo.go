package machine

import (
	"fmt"
	"path"
	"strings"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// recordUndo records the call that undoes the current node, which has completed with out.
func (t *Thread) recordUndo(node *ir.Node, out any) {
	c := node.Compensate
	if c == nil {
		return
	}
	undo := runstate.Undo{Node: node.ID, Path: t.Path}
	undo.Call, undo.Failure = t.operation().(undoable).ResolveUndo(node, out)
	t.Run.State.Done = append(t.Run.State.Done, undo)
}

// undoing compensates the completed nodes of a failed run, one after the other.
type undoing struct{ *Machine }

// startUndo fails the run with f after the completed nodes have been undone.
func (m undoing) startUndo(f *expr.Failure) {
	if len(m.State.Done) == 0 {
		m.endRun(lattice.Failed, f)
		return
	}
	m.State.Undoing = &runstate.Undoing{Cause: f}
	m.undoNext()
}

// undoNext begins to take back the node that completed last of those that are left, or ends the run.
func (m undoing) undoNext() {
	u := m.State.Undoing
	if len(m.State.Done) == 0 {
		u.Now = runstate.Undo{}
		cause := *u.Cause
		if len(u.Undone) > 0 {
			cause.Message += "; undone: " + strings.Join(u.Undone, ", ")
		}
		if len(u.Failed) > 0 {
			cause.Message += "; NOT undone: " + strings.Join(u.Failed, "; ")
		}
		m.endRun(lattice.Failed, &cause)
		return
	}
	last := len(m.State.Done) - 1
	u.Now, m.State.Done = m.State.Done[last], m.State.Done[:last:last]
	t := m.flow()
	t.Node = u.Now.Node
	if u.Now.Failure != nil {
		m.endUndo(u.Now.Failure)
		return
	}
	call := *u.Now.Call
	t.Visit = &runstate.Visit{Number: call.Visit, Attempt: 1, Call: &call}
	m.State.Started = append(m.State.Started, lattice.Compensating+u.Now.Node)
	t.operation().(undoable).Send()
}

// endUndo notes how the call ended that takes back a node.
func (m undoing) endUndo(f *expr.Failure) {
	u := m.State.Undoing
	name := path.Join(u.Now.Path, u.Now.Node)
	if f != nil {
		u.Failed = append(u.Failed, fmt.Sprintf("%s (%s)", name, f.Message))
	} else {
		u.Undone = append(u.Undone, name)
	}
	m.undoNext()
}
