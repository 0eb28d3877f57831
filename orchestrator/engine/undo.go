package engine

import (
	"fmt"
	"path"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Compensation. A TOOL_CALL with compensate says how what it did is taken back. When it has completed, the arguments of
// that are evaluated and kept. When the run fails, because a failure is caught nowhere, what was kept is called in the
// reverse order of completion, one call at a time, and then the run fails as it would have:
//
//   - Nodes inside of MAPs and other bodies count, whether or not their node failed and the failure was caught there. A
//     node that did not complete, or whose unknown outcome a person settled as failed, is not taken back.
//   - A call that takes back runs once, under the rules for its class: cut off it is found out about, goes again, or is
//     a person's to settle. If it fails, the others are made all the same, and the failure of the run names it.
//   - It counts against no max_steps and max_calls. A run that is canceled, or ended by its limits max_steps or
//     timeout_s, ends at once: State.Done then tells what stands.

// Undo is what takes back a node.
type Undo struct {
	Node    string        `json:"node"`
	Path    string        `json:"path,omitempty"`
	Call    *lattice.Call `json:"call,omitempty"`
	Failure *ir.Failure   `json:"failure,omitempty"` // why it cannot be called
}

// Undoing is compensation under way, or how it ended.
type Undoing struct {
	Cause  *ir.Failure `json:"cause"`
	Now    Undo        `json:"now"`
	Undone []string    `json:"undone,omitempty"` // nodes, in the order in which they were taken back
	Failed []string    `json:"failed,omitempty"` // nodes that were not, and why
}

// recordUndo keeps what takes back the current node, which has completed with out.
func (t *thread) recordUndo(node *ir.Node, out any) {
	c := node.Compensate
	if c == nil {
		return
	}
	undo := Undo{Node: node.ID, Path: t.path}
	undo.Call, undo.Failure = t.operation().(undoable).resolveUndo(node, out)
	t.m.s.Done = append(t.m.s.Done, undo)
}

// resolveUndo evaluates the call that takes back the current node.
func (t callOp) resolveUndo(node *ir.Node, out any) (*lattice.Call, *ir.Failure) {
	c := node.Compensate
	call, f := t.resolveCall(&ir.Node{ID: node.ID, Op: ir.OpToolCall, Tool: c.Tool, Args: c.Args}, t.scope(out))
	if f != nil {
		return nil, f
	}
	call.Attempt = 1
	call.Path = strings.TrimPrefix(t.path+"/undo", "/")
	call.IdempotencyKey = t.effectKey("undo")
	return call, nil
}

// startUndo fails the run with f, once what was done is taken back.
func (m *machine) startUndo(f *ir.Failure) {
	if len(m.s.Done) == 0 {
		m.endRun(lattice.Failed, f)
		return
	}
	m.s.Undoing = &Undoing{Cause: f}
	m.undoNext()
}

// undoNext begins to take back the node that completed last of those that are left, or ends the run.
func (m *machine) undoNext() {
	u := m.s.Undoing
	if len(m.s.Done) == 0 {
		u.Now = Undo{}
		cause := *u.Cause
		if len(u.Undone) > 0 {
			cause.Message += "; taken back: " + strings.Join(u.Undone, ", ")
		}
		if len(u.Failed) > 0 {
			cause.Message += "; NOT taken back: " + strings.Join(u.Failed, "; ")
		}
		m.endRun(lattice.Failed, &cause)
		return
	}
	last := len(m.s.Done) - 1
	u.Now, m.s.Done = m.s.Done[last], m.s.Done[:last:last]
	t := m.flow()
	t.Node = u.Now.Node
	if u.Now.Failure != nil {
		m.endUndo(u.Now.Failure)
		return
	}
	call := *u.Now.Call
	t.Visit = &Visit{Number: call.Visit, Attempt: 1, Call: &call}
	m.s.Started = append(m.s.Started, lattice.Compensating+u.Now.Node)
	t.operation().(undoable).send()
}

// endUndo notes how the call ended that takes back a node.
func (m *machine) endUndo(f *ir.Failure) {
	u := m.s.Undoing
	name := path.Join(u.Now.Path, u.Now.Node)
	if f != nil {
		u.Failed = append(u.Failed, fmt.Sprintf("%s (%s)", name, f.Message))
	} else {
		u.Undone = append(u.Undone, name)
	}
	m.undoNext()
}
