package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ladder"
)

// parallelOp is a PARALLEL: branches that run at once.
type parallelOp struct{ fanOut }

// Advance begins further branches and completes the node as its join says.
func (t parallelOp) Advance(node *ir.Node) {
	if node.Join == ir.JoinAny && t.finishFirst(node) {
		return
	}
	if t.collect(node) {
		mp := t.Visit.Map
		t.Close()
		t.finishJoined(node, mp)
	}
}

// Begin begins the branches, as many as may run at once.
func (t parallelOp) Begin(node *ir.Node) {
	t.Visit.Map = &runstate.Mapping{Items: len(node.Branches)}
	t.startTimer(node)
	t.beginAll(node)
}

// finishFirst ends a PARALLEL that joins any as soon as one of its branches has succeeded; the others are given up.
func (t parallelOp) finishFirst(node *ir.Node) bool {
	for _, b := range t.Below() {
		if !b.Iteration.Ended || b.Iteration.Failure != nil {
			continue
		}
		for _, other := range t.Below() {
			if other.Iteration != b.Iteration {
				other.DropIteration()
			}
		}
		t.Close()
		t.CompleteNode(map[string]any{"result": b.Iteration.Result, "branch": node.Branches[b.Iteration.Index].Name}, nil)
		return true
	}
	return false
}

// finishJoined ends a PARALLEL all of whose branches have ended, as they may.
func (t parallelOp) finishJoined(node *ir.Node, mp *runstate.Mapping) {
	if node.Join == ir.JoinAny { // else it were won
		f := machine.Failf(expr.FailInvariant, "none of the %d branches of %s succeeded", len(node.Branches), node.ID)
		if raw, err := expr.Marshal(map[string]any{"failures": mp.Failures.All()}); err == nil {
			f.Data = raw
		}
		if first, ok := mp.Failures.At(0).(map[string]any); ok {
			f.Kind, _ = first["kind"].(string)
		}
		t.FailAttempt(f)
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
		if f, bad := failed[string(machine.Number(i))]; node.Join == ir.JoinSettled {
			out[b.Name] = map[string]any{"ok": !bad, "result": mp.Results.At(i), "error": f}
		}
	}
	whole := make(map[string]any, len(out))
	maps.Copy(whole, out)
	out["result"] = whole
	t.CompleteNode(out, nil)
}

// loopOp is a LOOP: iterations one after the other.
type loopOp struct{ body }

// Begin starts a LOOP. $item of the first iteration is the value of init.
func (t loopOp) Begin(node *ir.Node) {
	var first any
	if len(node.Init) > 0 {
		v, f := expr.Eval(node.Init, t.Scope(nil))
		if f != nil {
			f.Message = "init: " + f.Message
			t.FailAttempt(f)
			return
		}
		first = v
	}
	t.Visit.Map = &runstate.Mapping{}
	t.appendTo(&t.Visit.Map.Results, first)
	t.startTimer(node)
	t.AdvanceNode()
}

// Advance takes the iteration that has ended, and begins the next one unless the LOOP's condition says otherwise.
func (t loopOp) Advance(node *ir.Node) {
	mp := t.Visit.Map
	done := false
	if len(mp.Open) > 0 {
		it := mp.Open[0]
		mp.Open = nil
		if it.Failure != nil {
			t.Close()
			t.FailAttempt(innerFailure(node, it, 0))
			return
		}
		mp.Results = runstate.List{}
		t.appendTo(&mp.Results, it.Result)
		if node.Until != nil {
			ok, f := node.Until.True(t.Scope(nil).WithItem(it.Result, it.Index))
			if f != nil {
				t.failCondition("until", f)
				return
			}
			done = ok
		}
	}
	if node.While != nil {
		ok, f := node.While.True(t.Scope(nil).WithItem(mp.Results.At(0), mp.Begun))
		if f != nil {
			t.failCondition("while", f)
			return
		}
		done = !ok
	}
	switch {
	case done:
		t.Close()
		t.CompleteNode(map[string]any{"result": mp.Results.At(0), "iterations": machine.Number(mp.Begun)}, nil)
	case mp.Begun >= node.MaxIterations:
		t.Close()
		t.FailAttempt(machine.Failf(expr.FailLimit, "%s has not come to its end after max_iterations, which is %d", node.ID, node.MaxIterations))
	default:
		mp.Bytes = 0
		it := &runstate.Iteration{Index: mp.Begun, Item: mp.Results.At(0), Lane: runstate.NewLane()}
		t.beginIteration(node, it)
	}
}

func (t loopOp) failCondition(name string, f *expr.Failure) {
	t.Close()
	f.Message = name + ": " + f.Message
	t.FailAttempt(f)
}

// subgraphOp is a SUBGRAPH: a document as one node.
type subgraphOp struct{ body }

// Begin begins a SUBGRAPH with its inputs as $in and $vars of its own.
func (t subgraphOp) Begin(node *ir.Node) {
	in, f := t.EvalInputs(node)
	if f != nil {
		t.FailAttempt(f)
		return
	}
	if schema := t.Run.Program.SubgraphInputSchema(node); schema != nil {
		problems, err := ladder.Fit(schema, in)
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("%s: %s", cmp.Or(problems[0].Path, "the inputs"), problems[0].Message)
		}
		if err != nil {
			f = machine.Failf(expr.FailSchema, "the inputs of %s do not fit the subgraph's input_schema: %v", node.ID, err)
			f.Data = encodeDetails(map[string]any{"problems": problems})
			t.FailVisit(f)
			return
		}
	}
	t.Visit.Map = &runstate.Mapping{Items: 1}
	t.startTimer(node)
	t.beginIteration(node, &runstate.Iteration{Frame: &runstate.Frame{Vars: map[string]any{}, In: in}, Lane: runstate.NewLane()})
}

func (t subgraphOp) Advance(node *ir.Node) {
	it := t.Visit.Map.Open[0]
	t.Close()
	if it.Failure != nil {
		t.FailAttempt(innerFailure(node, it, 0))
		return
	}
	t.CompleteNode(map[string]any{"result": it.Result}, nil)
}
