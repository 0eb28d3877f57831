package engine

import (
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// operations returns the operation of a node with an op that a thread visits, nil for an unknown op.
type operations func(t *thread, op ir.Op) operation

// operation returns the operation of the node that t visits.
func (t *thread) operation() operation {
	return t.m.operations(t, t.m.p.Node(t.Node).Op)
}

// operation has the rules of one op. It holds nothing but the thread that visits a node of that op.
type operation interface {
	// begin makes one attempt at the node: it completes or fails the node, or issues commands or opens a wait for it.
	begin(node *ir.Node)
	// answered goes on with the fact that answers a command of the node. The command is no longer pending.
	answered(node *ir.Node, c lattice.Command, f lattice.Fact) error
}

// container is the operation of a node that runs others inside.
type container interface {
	operation
	// advance goes on after an iteration has ended, and at the start: it begins further iterations or completes the node.
	advance(node *ir.Node)
}

// dispatcher is the operation of a node whose command may be held back.
type dispatcher interface {
	// dispatch issues the command, unless it is held back again.
	dispatch()
}

// decider is the operation of a node that waits for people.
type decider interface {
	// decided goes on with the decision f on the wait w.
	decided(w lattice.Wait, f lattice.Answered, inputs map[string]any) error
}

// undoable is the operation of a node that a call can undo.
type undoable interface {
	// resolveUndo evaluates the call that undoes the current node, which has completed with out.
	resolveUndo(node *ir.Node, out any) (*lattice.Call, *ir.Failure)
	// send sends the call of the visit.
	send()
}

// operationOf returns the operation of the node that t visits, nil for an op that this version does not run.
func operationOf(t *thread, op ir.Op) operation {
	switch op {
	case ir.OpToolCall:
		return callOp{t}
	case ir.OpLLMExtract, ir.OpLLMClassify, ir.OpLLMChoose, ir.OpLLMWrite:
		return llmOp{t}
	case ir.OpHuman:
		return humanOp{t}
	case ir.OpMap:
		return mapOp{fanOut{body{t}}}
	case ir.OpParallel:
		return parallelOp{fanOut{body{t}}}
	case ir.OpLoop:
		return loopOp{body{t}}
	case ir.OpSubgraph:
		return subgraphOp{body{t}}
	case ir.OpWait:
		return waitOp{t}
	case ir.OpPack:
		return packOp{instant{t}}
	case ir.OpSwitch:
		return switchOp{instant{t}}
	case ir.OpMerge:
		return mergeOp{instant{t}}
	case ir.OpSet:
		return setOp{instant{t}}
	case ir.OpEmit:
		return emitOp{instant{t}}
	case ir.OpFail:
		return failOp{instant{t}}
	case ir.OpEnd:
		return endOp{instant{t}}
	}
	return nil
}

// instant is embedded by ops whose nodes end within begin.
type instant struct{ *thread }

func (t instant) answered(_ *ir.Node, c lattice.Command, f lattice.Fact) error {
	return unexpected(c, f)
}

// unexpected refuses a fact that does not answer anything that its node asks for.
func unexpected(c lattice.Command, f lattice.Fact) error {
	return fmt.Errorf("%s answers command %s of %s, which does not expect it", f.FactType(), c.ID, c.Node)
}
