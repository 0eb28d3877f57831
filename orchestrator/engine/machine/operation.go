package machine

import (
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Operations returns the operation of a node with an op that a thread visits, nil for an unknown op.
type Operations func(t *Thread, op ir.Op) Operation

// operation returns the operation of the node that t visits.
func (t *Thread) operation() Operation {
	return t.Run.operations(t, t.Run.Program.Node(t.Node).Op)
}

// Operation has the rules of one op. It holds nothing but the thread that visits a node of that op.
type Operation interface {
	// Begin makes one attempt at the node: it completes or fails the node, or issues commands or opens a wait for it.
	Begin(node *ir.Node)
	// Answered goes on with the fact that answers a command of the node. The command is no longer pending.
	Answered(node *ir.Node, c lattice.Command, f lattice.Fact) error
}

// container is the operation of a node that runs others inside.
type container interface {
	Operation
	// Advance goes on after an iteration has ended, and at the start: it begins further iterations or completes the node.
	Advance(node *ir.Node)
}

// dispatcher is the operation of a node whose command may be held back.
type dispatcher interface {
	// Dispatch issues the command, unless it is held back again.
	Dispatch()
}

// recorded is the operation of a node whose action may have a record from before a loss of power.
type recorded interface {
	// ResumeFromRecord goes on with the outcome of the action, if that is recorded, and reports whether it is.
	ResumeFromRecord(action string) bool
}

// decider is the operation of a node that waits for people.
type decider interface {
	// Decided goes on with the decision f on the wait w.
	Decided(w lattice.Wait, f lattice.Answered, inputs map[string]any) error
}

// undoable is the operation of a node that a call can undo.
type undoable interface {
	// ResolveUndo evaluates the call that undoes the current node, which has completed with out.
	ResolveUndo(node *ir.Node, out any) (*lattice.Call, *expr.Failure)
	// Send sends the call of the visit.
	Send()
}
