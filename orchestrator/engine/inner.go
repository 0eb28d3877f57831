package engine

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
)

// parallelOp is a PARALLEL: branches that run at once.
type parallelOp struct{ fanOut }

// advance begins further branches and completes the node as its join says.
func (t parallelOp) advance(node *ir.Node) {
	if node.Join == ir.JoinAny && t.finishFirst(node) {
		return
	}
	if t.collect(node) {
		mp := t.Visit.Map
		t.close()
		t.finishJoined(node, mp)
	}
}

// begin begins the branches, as many as may run at once.
func (t parallelOp) begin(node *ir.Node) {
	t.Visit.Map = &Mapping{Items: len(node.Branches)}
	t.startTimer(node)
	t.beginAll(node)
}

// finishFirst ends a PARALLEL that joins any as soon as one of its branches has succeeded; the others are given up.
func (t parallelOp) finishFirst(node *ir.Node) bool {
	for _, b := range t.below() {
		if !b.iteration.Ended || b.iteration.Failure != nil {
			continue
		}
		for _, other := range t.below() {
			if other.iteration != b.iteration {
				other.dropIteration()
			}
		}
		t.close()
		t.completeNode(map[string]any{"result": b.iteration.Result, "branch": node.Branches[b.iteration.Index].Name}, nil)
		return true
	}
	return false
}

// finishJoined ends a PARALLEL all of whose branches have ended, as they may.
func (t parallelOp) finishJoined(node *ir.Node, mp *Mapping) {
	if node.Join == ir.JoinAny { // else it were won
		f := newFailure(ir.FailInvariant, "none of the %d branches of %s succeeded", len(node.Branches), node.ID)
		if raw, err := ir.Marshal(map[string]any{"failures": mp.Failures.All()}); err == nil {
			f.Data = raw
		}
		if first, ok := mp.Failures.At(0).(map[string]any); ok {
			f.Kind, _ = first["kind"].(string)
		}
		t.failAttempt(f)
		return
	}
	failed := map[string]any{}
	for _, f := range mp.Failures.All() {
		if object, ok := f.(map[string]any); ok {
			failed[string(object["index"].(json.Number))] = object
		}
	}
	out := make(map[string]any, len(node.Branches)+1)
	for i, b := range node.Branches {
		out[b.Name] = mp.Results.At(i)
		if f, bad := failed[string(jsonNumber(i))]; node.Join == ir.JoinSettled {
			out[b.Name] = map[string]any{"ok": !bad, "result": mp.Results.At(i), "error": f}
		}
	}
	whole := make(map[string]any, len(out))
	for name, v := range out {
		whole[name] = v
	}
	out["result"] = whole
	t.completeNode(out, nil)
}

// loopOp is a LOOP: iterations one after the other.
type loopOp struct{ body }

// begin begins a LOOP: what its first iteration finds is init.
func (t loopOp) begin(node *ir.Node) {
	var first any
	if len(node.Init) > 0 {
		v, f := ir.Eval(node.Init, t.scope(nil))
		if f != nil {
			f.Message = "init: " + f.Message
			t.failAttempt(f)
			return
		}
		first = v
	}
	t.Visit.Map = &Mapping{}
	t.appendTo(&t.Visit.Map.Results, first)
	t.startTimer(node)
	t.advanceNode()
}

// advance takes the iteration that has ended, and begins the next one unless the LOOP's condition says otherwise.
func (t loopOp) advance(node *ir.Node) {
	mp := t.Visit.Map
	done := false
	if len(mp.Open) > 0 {
		it := mp.Open[0]
		mp.Open = nil
		if it.Failure != nil {
			t.close()
			t.failAttempt(innerFailure(node, it, 0))
			return
		}
		mp.Results = List{}
		t.appendTo(&mp.Results, it.Result)
		if node.Until != nil {
			ok, f := node.Until.True(t.scope(nil).WithItem(it.Result, it.Index))
			if f != nil {
				t.failCondition("until", f)
				return
			}
			done = ok
		}
	}
	if node.While != nil {
		ok, f := node.While.True(t.scope(nil).WithItem(mp.Results.At(0), mp.Begun))
		if f != nil {
			t.failCondition("while", f)
			return
		}
		done = !ok
	}
	switch {
	case done:
		t.close()
		t.completeNode(map[string]any{"result": mp.Results.At(0), "iterations": jsonNumber(mp.Begun)}, nil)
	case mp.Begun >= node.MaxIterations:
		t.close()
		t.failAttempt(newFailure(ir.FailLimit, "%s has not come to its end after max_iterations, which is %d", node.ID, node.MaxIterations))
	default:
		mp.Bytes = 0
		it := &Iteration{Index: mp.Begun, Item: mp.Results.At(0), Lane: newLane()}
		t.beginIteration(node, it)
	}
}

func (t loopOp) failCondition(what string, f *ir.Failure) {
	t.close()
	f.Message = what + ": " + f.Message
	t.failAttempt(f)
}

// subgraphOp is a SUBGRAPH: a document as one node.
type subgraphOp struct{ body }

// begin begins a SUBGRAPH with its inputs as $in and $vars of its own.
func (t subgraphOp) begin(node *ir.Node) {
	in, f := t.evalInputs(node)
	if f != nil {
		t.failAttempt(f)
		return
	}
	if schema := t.m.p.SubgraphInputSchema(node); schema != nil {
		problems, err := ladder.Fit(schema, in)
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("%s: %s", cmp.Or(problems[0].Path, "the inputs"), problems[0].Message)
		}
		if err != nil {
			f = newFailure(ir.FailSchema, "the inputs of %s do not fit the subgraph's input_schema: %v", node.ID, err)
			f.Data = encodeDetails(map[string]any{"problems": problems})
			t.failVisit(f)
			return
		}
	}
	t.Visit.Map = &Mapping{Items: 1}
	t.startTimer(node)
	t.beginIteration(node, &Iteration{Frame: &Frame{Vars: map[string]any{}, In: in}, Lane: newLane()})
}

func (t subgraphOp) advance(node *ir.Node) {
	it := t.Visit.Map.Open[0]
	t.close()
	if it.Failure != nil {
		t.failAttempt(innerFailure(node, it, 0))
		return
	}
	t.completeNode(map[string]any{"result": it.Result}, nil)
}
