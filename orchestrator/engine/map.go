package engine

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// fanOut is shared by MAP and PARALLEL: iterations that run at once and whose results are taken in order.
type fanOut struct{ body }

// mapOp is a MAP: a body for each item of a list.
type mapOp struct{ fanOut }

func (t fanOut) Answered(node *ir.Node, c lattice.Command, f lattice.Fact) error {
	if _, ok := f.(lattice.BoundaryTaken); ok { // of which the items' sprites are copies
		t.AdvanceNode()
		return nil
	}
	return t.body.Answered(node, c, f)
}

// Advance begins further items and completes the node behind the last one.
func (t mapOp) Advance(node *ir.Node) {
	if t.collect(node) {
		mp := t.Visit.Map
		t.Close()
		t.CompleteNode(map[string]any{"result": mp.Results.All(), "failures": mp.Failures.All()}, nil)
	}
}

// Begin begins a MAP: the items are counted before any of them is touched.
func (t mapOp) Begin(node *ir.Node) {
	items, f := t.evalItems(node)
	if f == nil && len(items) > node.MaxItems {
		f = machine.Failf(expr.FailLimit, "%s has %d items; max_items is %d", node.ID, len(items), node.MaxItems)
	}
	if f != nil {
		t.FailAttempt(f)
		return
	}
	t.Visit.Map = &runstate.Mapping{Items: len(items), Evaluated: items}
	t.startTimer(node)
	t.beginAll(node)
}

// beginAll begins the items of a MAP or the branches of a PARALLEL, when there is a checkpoint to copy if they want one.
func (t fanOut) beginAll(node *ir.Node) {
	m := t.Run
	sprite := t.Sprite()
	if _, paired := m.State.Pairs[sprite]; (t.forksSprites(node) || m.Program.CopiesInside(node)) && t.Visit.Map.Items > 0 && (m.State.Dirty[sprite] || !paired) {
		t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: sprite})
		return
	}
	t.AdvanceNode()
}

// evalItems evaluates the items of the current MAP. They cannot change during the visit, so that they are kept in memory but
// are no part of the encoded state.
func (t fanOut) evalItems(node *ir.Node) ([]any, *expr.Failure) {
	mp := t.Visit.Map
	if mp != nil && mp.Evaluated != nil {
		return mp.Evaluated, nil
	}
	v, f := expr.Eval(node.Items, t.Scope(nil))
	if f != nil {
		f.Message = "items: " + f.Message
		return nil, f
	}
	list, ok := v.([]any)
	if !ok {
		return nil, machine.Failf(expr.FailStateType, "the items of %s are not an array", node.ID)
	}
	if mp != nil {
		mp.Evaluated = list
	}
	return list, nil
}

// collect takes the results of ended iterations, in item order as far as they go, and begins further iterations while
// there is room. It fails the node when too many failed. It reports whether all results are taken.
func (t fanOut) collect(node *ir.Node) bool {
	mp := t.Visit.Map
	doomed := t.dropDoomed(node)
	for len(mp.Open) > 0 && mp.Open[0].Ended {
		it := mp.Open[0]
		mp.Open = mp.Open[1:]
		if it.Failure != nil && !tolerates(node, mp.Failures.Len()+1, it.Failure) {
			t.Close()
			t.FailAttempt(innerFailure(node, it, mp.Failures.Len()))
			return false
		}
		if it.Failure != nil {
			t.appendTo(&mp.Failures, encodeCollected(it))
		}
		t.appendTo(&mp.Results, it.Result)
	}
	if !doomed && mp.Begun < mp.Items {
		t.beginItems(node)
	}
	return len(mp.Open) == 0
}

// beginItems begins the next iterations, as many as may run at once.
func (t fanOut) beginItems(node *ir.Node) {
	mp, running := t.Visit.Map, 0
	var items []any
	if node.Op == ir.OpMap {
		var f *expr.Failure
		if items, f = t.evalItems(node); f != nil || len(items) != mp.Items {
			t.Run.Err = fmt.Errorf("the items of %s changed while it was at work: %v", node.ID, f)
			return
		}
	}
	for _, it := range mp.Open {
		if !it.Ended {
			running++
		}
	}
	for ; running < t.Run.Program.Width(node) && mp.Begun < mp.Items; running++ {
		it := &runstate.Iteration{Index: mp.Begun, Lane: runstate.NewLane()}
		if items != nil {
			it.Item = items[mp.Begun]
		}
		t.beginIteration(node, it)
	}
}

// dropDoomed reports whether the failures known by now fail the node. Then the items behind the one at fault do not matter
// any more and are dropped; those before it still do, because the first failure counts.
func (t fanOut) dropDoomed(node *ir.Node) bool {
	failures := t.Visit.Map.Failures.Len()
	for i, b := range t.Below() {
		if b.Iteration.Failure == nil {
			continue
		}
		failures++
		if node.Join != ir.JoinAny && !tolerates(node, failures, b.Iteration.Failure) {
			for _, behind := range t.Below()[i+1:] {
				behind.DropIteration()
			}
			t.Visit.Map.Open = slices.Clip(t.Visit.Map.Open[:i+1])
			return true
		}
	}
	return false
}

// tolerates reports whether a node continues after this failure, the nth in item order. Failures that ALL does not catch are
// never collected.
func tolerates(node *ir.Node, nth int, f *expr.Failure) bool {
	collects := node.OnError == "collect" || node.Join == ir.JoinAny || node.Join == ir.JoinSettled
	if !collects || !machine.CoversKind([]string{"ALL"}, f.Kind) {
		return false
	}
	return node.ToleratedFailures == nil || nth <= *node.ToleratedFailures
}

// encodeCollected is an iteration's failure as port "failures" lists it.
func encodeCollected(it *runstate.Iteration) map[string]any {
	c := machine.EncodeFailure(it.Failure)
	c["index"] = machine.Number(it.Index)
	return c
}
