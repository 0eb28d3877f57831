package engine

import (
	"fmt"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Timeouts of nodes that run others inside. Each attempt has a timer, a pending command whose time counts from its entry in
// the journal. When it fires, the iterations are dropped: calls that are under way are stopped, questions are withdrawn, and
// the node fails with timeout.
//
// An iteration whose call may have changed the world is not dropped (DESIGN 14). The node starts nothing more, waits until
// the call has ended or a person has settled it, and then fails.

// startTimer sets the timer of the current node.
func (t body) startTimer(node *ir.Node) {
	if node.TimeoutS > 0 {
		t.Issue(lattice.Command{Kind: lattice.DoTimer, DelayS: node.TimeoutS})
	}
}

// Answered takes the timer of a node that runs others inside.
func (t body) Answered(_ *ir.Node, c lattice.Command, f lattice.Fact) error {
	if _, ok := f.(lattice.TimerFired); !ok {
		return unexpectedFact(c, f)
	}
	t.expire()
	return nil
}

// expire starts to drop the iterations of the current node.
func (t body) expire() {
	t.Visit.Map.Expired = true
	t.Run.State.Overdue = append(t.Run.State.Overdue, t.Path)
}

// MAP, PARALLEL, LOOP and SUBGRAPH run iterations: items, branches, rounds, a document. Each is a lane in the visit of its
// node. MAP and PARALLEL end as if their iterations had run one after the other, in whatever order facts arrive: results are
// taken in item order, and of several failures the first in that order counts. Only the outcome of a PARALLEL with join
// "any" depends on the order of facts in the journal.

// body is the part that all nodes share which run others inside: the timer of the attempt, and iterations.
type body struct{ *machine.Thread }

// forksSprites reports whether each iteration of a node gets a copy of the sprite.
func (t body) forksSprites(node *ir.Node) bool {
	return node.ForksSprites() && t.Run.State.Sprite != ""
}

// appendTo puts v, which is JSON, behind a list.
func (t body) appendTo(l *runstate.List, v any) {
	grown, err := l.Append(v)
	if err != nil {
		t.Run.Err = err
		return
	}
	*l = grown
}

// beginIteration begins an iteration of the node at which t is.
func (t body) beginIteration(node *ir.Node, it *runstate.Iteration) {
	m := t.Run
	mp := t.Visit.Map
	mp.Open = append(mp.Open, it)
	mp.Begun++
	below := t.Below()
	inner := below[len(below)-1]
	if !t.forksSprites(node) {
		inner.Schedule(m.Program.Inner(node, it.Index).EntryNode)
		return
	}
	from := m.State.Pairs[t.Sprite()]
	it.Sprite = lattice.CopyName(t.Sprite(), m.State.RunID, m.State.Epoch, inner.Path)
	inner.Issue(lattice.Command{Kind: lattice.DoFork, Sprite: it.Sprite, Pair: &from})
}

// innerFailure is an iteration's failure, which came behind others that were tolerated, as its node's.
func innerFailure(node *ir.Node, it *runstate.Iteration, tolerated int) *expr.Failure {
	f := *it.Failure
	name := fmt.Sprintf("item %d", it.Index)
	switch node.Op {
	case ir.OpParallel:
		name = "branch " + node.Branches[it.Index].Name
	case ir.OpLoop:
		name = fmt.Sprintf("iteration %d", it.Index)
	case ir.OpSubgraph:
		name = "the subgraph"
	default:
	}
	f.Message = fmt.Sprintf("%s failed at %s: %s", name, f.Node, f.Message)
	if tolerated > 0 {
		f.Message = fmt.Sprintf("%d failed before; %s", tolerated, f.Message)
	}
	return &f
}
