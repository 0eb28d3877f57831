package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// What runs inside of a node: the iterations of a MAP and of a LOOP, the branches of a PARALLEL, the document of a
// SUBGRAPH. They are lanes in the visit of their node. However many run at once and whatever order their facts arrive in,
// a MAP or PARALLEL ends as if they had run one after the other: results are taken in their order, and of several failures
// the first one in it counts. Only a PARALLEL that joins any is a race, which the journal decides.

// body is the part that all nodes share which run others inside: the timer of the attempt, and iterations.
type body struct{ *thread }

// fanOut is what MAP and PARALLEL share: iterations that run at once and whose results are taken in their order.
type fanOut struct{ body }

// mapOp is a MAP: a body for each item of a list.
type mapOp struct{ fanOut }

func (t fanOut) answered(node *ir.Node, c lattice.Command, f lattice.Fact) error {
	if _, ok := f.(lattice.BoundaryTaken); ok { // of which the items' sprites are copies
		t.advanceNode()
		return nil
	}
	return t.body.answered(node, c, f)
}

// advance begins further items and completes the node behind the last one.
func (t mapOp) advance(node *ir.Node) {
	if t.collect(node) {
		mp := t.Visit.Map
		t.close()
		t.completeNode(map[string]any{"result": mp.Results.All(), "failures": mp.Failures.All()}, nil)
	}
}

// begin begins a MAP: the items are counted before any of them is touched.
func (t mapOp) begin(node *ir.Node) {
	items, f := t.evalItems(node)
	if f == nil && len(items) > node.MaxItems {
		f = newFailure(ir.FailLimit, "%s has %d items; max_items is %d", node.ID, len(items), node.MaxItems)
	}
	if f != nil {
		t.failAttempt(f)
		return
	}
	t.Visit.Map = &Mapping{Items: len(items), evaluated: items}
	t.startTimer(node)
	t.beginAll(node)
}

// beginAll begins the items of a MAP or the branches of a PARALLEL, when there is a checkpoint to copy if they want one.
func (t fanOut) beginAll(node *ir.Node) {
	m := t.m
	sprite := t.sprite()
	if _, paired := m.s.Pairs[sprite]; (t.forksSprites(node) || m.p.CopiesInside(node)) && t.Visit.Map.Items > 0 && (m.s.Dirty[sprite] || !paired) {
		t.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: sprite})
		return
	}
	t.advanceNode()
}

// forksSprites reports whether each iteration of a node gets a copy of the sprite.
func (t body) forksSprites(node *ir.Node) bool { return node.ForksSprites() && t.m.s.Sprite != "" }

// evalItems evaluates the items of the current MAP. While it is at work nothing that they may read changes, so that they are
// kept, but not written down.
func (t fanOut) evalItems(node *ir.Node) ([]any, *ir.Failure) {
	mp := t.Visit.Map
	if mp != nil && mp.evaluated != nil {
		return mp.evaluated, nil
	}
	v, f := ir.Eval(node.Items, t.scope(nil))
	if f != nil {
		f.Message = "items: " + f.Message
		return nil, f
	}
	list, ok := v.([]any)
	if !ok {
		return nil, newFailure(ir.FailStateType, "the items of %s are no array", node.ID)
	}
	if mp != nil {
		mp.evaluated = list
	}
	return list, nil
}

// advanceNode goes on with the node at which t is, one that runs others inside.
func (t *thread) advanceNode() {
	node := t.m.p.Node(t.Node)
	if t.Visit.Map.Expired {
		return // it is being given up
	}
	t.operation().(container).advance(node)
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
			t.close()
			t.failAttempt(innerFailure(node, it, mp.Failures.Len()))
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

// appendTo puts v, which is JSON, behind a list.
func (t body) appendTo(l *List, v any) {
	grown, err := l.Append(v)
	if err != nil {
		t.m.err = err
		return
	}
	*l = grown
}

// beginItems begins the next iterations, as many as may run at once.
func (t fanOut) beginItems(node *ir.Node) {
	mp, running := t.Visit.Map, 0
	var items []any
	if node.Op == ir.OpMap {
		var f *ir.Failure
		if items, f = t.evalItems(node); f != nil || len(items) != mp.Items {
			t.m.err = fmt.Errorf("the items of %s changed while it was at work: %v", node.ID, f)
			return
		}
	}
	for _, it := range mp.Open {
		if !it.Ended {
			running++
		}
	}
	for ; running < t.m.p.Width(node) && mp.Begun < mp.Items; running++ {
		it := &Iteration{Index: mp.Begun, Lane: newLane()}
		if items != nil {
			it.Item = items[mp.Begun]
		}
		t.beginIteration(node, it)
	}
}

// beginIteration begins an iteration of the node at which t is.
func (t body) beginIteration(node *ir.Node, it *Iteration) {
	m := t.m
	mp := t.Visit.Map
	mp.Open = append(mp.Open, it)
	mp.Begun++
	below := t.below()
	inner := below[len(below)-1]
	if !t.forksSprites(node) {
		inner.schedule(m.p.Inner(node, it.Index).EntryNode)
		return
	}
	from := m.s.Pairs[t.sprite()]
	it.Sprite = fmt.Sprintf("%.40s-%s", t.sprite(), lattice.DerivedKey(m.s.RunID, strconv.Itoa(m.s.Epoch), inner.path)[:12])
	inner.issue(lattice.Command{Kind: lattice.DoFork, Sprite: it.Sprite, Pair: &from})
}

// dropDoomed reports whether the failures known by now fail the node. Then the items behind the one at fault do not matter
// any more and are dropped; those before it still do, because the first failure counts.
func (t fanOut) dropDoomed(node *ir.Node) bool {
	failures := t.Visit.Map.Failures.Len()
	for i, b := range t.below() {
		if b.iteration.Failure == nil {
			continue
		}
		failures++
		if node.Join != ir.JoinAny && !tolerates(node, failures, b.iteration.Failure) {
			for _, behind := range t.below()[i+1:] {
				behind.dropIteration()
			}
			t.Visit.Map.Open = slices.Clip(t.Visit.Map.Open[:i+1])
			return true
		}
	}
	return false
}

// tolerates reports whether a node goes on after this failure, the nth by item order. What ALL does not catch, nothing
// collects.
func tolerates(node *ir.Node, nth int, f *ir.Failure) bool {
	collects := node.OnError == "collect" || node.Join == ir.JoinAny || node.Join == ir.JoinSettled
	if !collects || !coversKind([]string{"ALL"}, f.Kind) {
		return false
	}
	return node.ToleratedFailures == nil || nth <= *node.ToleratedFailures
}

// dropIteration takes back what an iteration, and those inside of it, wanted or waited for. Only iterations whose calls read run
// beside others, and what is given up for its time is no call that may have changed the world: no effect is lost unseen.
func (t *thread) dropIteration() {
	m := t.m
	outer := t.path
	command := func(c lattice.Command) bool { return within(c.Path, outer) }
	m.s.Pending = slices.DeleteFunc(m.s.Pending, command)
	m.commands = slices.DeleteFunc(m.commands, command)
	m.s.Waits = slices.DeleteFunc(m.s.Waits, func(w lattice.Wait) bool { return within(w.Path, outer) })
	if m.s.Status == lattice.Waiting && len(m.s.Waits) == 0 {
		m.setStatus(lattice.Running)
	}
	if !t.iteration.Ended {
		m.s.Started = append(m.s.Started, outer+lattice.IterationDropped)
	}
	path := func(p string) bool { return within(p, outer) }
	m.s.Overdue = slices.DeleteFunc(m.s.Overdue, path)
	m.s.Held, m.s.Settling = slices.DeleteFunc(m.s.Held, path), slices.DeleteFunc(m.s.Settling, path)
	m.ready = slices.DeleteFunc(m.ready, func(e entry) bool { return within(e.thread.path, outer) })
}

// completeIteration ends the current iteration behind its last node, whose output is out.
func (t *thread) completeIteration(node *ir.Node, out any) {
	m := t.m
	owner := m.p.Node(t.up.Node)
	inner := m.p.Inner(owner, t.iteration.Index)
	result, f := out, (*ir.Failure)(nil)
	switch {
	case node.Op == ir.OpEnd && node.Output != nil: // out is what it says
	case inner.Result != nil:
		result, f = ir.Eval(inner.Result, t.scope(nil))
	case t.iteration.Frame != nil:
		result = t.iteration.Frame.Vars
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
	t.iteration.Result = result
	if owner.KeepSprite && t.iteration.Sprite != "" {
		m.s.Kept = append(m.s.Kept, t.iteration.Sprite)
	}
	t.endIteration()
}

func (t *thread) failIteration(f *ir.Failure) {
	t.iteration.Failure = f
	if full := t.accountResult(f); full != nil {
		full.Node, full.Attempt = f.Node, f.Attempt
		t.iteration.Failure = full
	}
	t.endIteration()
}

// accountResult counts what an iteration leaves behind, and holds it against max_state_bytes.
func (t *thread) accountResult(v any) *ir.Failure {
	raw, err := ir.Marshal(v)
	if err != nil {
		return newFailure(ir.FailStateType, "encode: %v", err)
	}
	mp := t.up.Visit.Map
	mp.Bytes += len(raw)
	t.Tmp = map[string]any{}
	f := t.m.checkSize()
	if f != nil {
		mp.Bytes -= len(raw)
	}
	return f
}

func (t *thread) endIteration() {
	t.iteration.Ended = true
	end := lattice.IterationDone
	if t.iteration.Failure != nil {
		end = lattice.IterationFailed
	}
	t.m.s.Started = append(t.m.s.Started, t.path+end)
	t.Visit, t.Tmp, t.Err = nil, map[string]any{}, nil
	t.iteration.Frame = nil
	t.up.advanceNode()
}

// innerFailure is an iteration's failure, which came behind others that were tolerated, as its node's.
func innerFailure(node *ir.Node, it *Iteration, tolerated int) *ir.Failure {
	f := *it.Failure
	what := fmt.Sprintf("item %d", it.Index)
	switch node.Op {
	case ir.OpParallel:
		what = "branch " + node.Branches[it.Index].Name
	case ir.OpLoop:
		what = fmt.Sprintf("iteration %d", it.Index)
	case ir.OpSubgraph:
		what = "the subgraph"
	default:
	}
	f.Message = fmt.Sprintf("%s failed at %s: %s", what, f.Node, f.Message)
	if tolerated > 0 {
		f.Message = fmt.Sprintf("%d failed before; %s", tolerated, f.Message)
	}
	return &f
}

// encodeCollected is an iteration's failure as port "failures" lists it.
func encodeCollected(it *Iteration) map[string]any {
	c := encodeFailure(it.Failure)
	c["index"] = jsonNumber(it.Index)
	return c
}
