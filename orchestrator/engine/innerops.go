package engine

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
)

// startParallel begins the branches, as many as may run at once.
func (m *machine) startParallel(node *ir.Node) {
	m.at.Visit.Map = &Mapping{Items: len(node.Branches)}
	m.limitTime(node)
	m.beginMap(node)
}

// won ends a PARALLEL that joins any as soon as one of its branches has succeeded; the others are given up.
func (m *machine) won(t *thread, node *ir.Node) bool {
	for _, b := range t.below() {
		if !b.iteration.Ended || b.iteration.Failure != nil {
			continue
		}
		for _, other := range t.below() {
			if other.iteration != b.iteration {
				m.drop(other)
			}
		}
		m.close(t)
		m.finish(map[string]any{"result": b.iteration.Result, "branch": node.Branches[b.iteration.Index].Name})
		return true
	}
	return false
}

// joined ends a PARALLEL all of whose branches have ended, as they may.
func (m *machine) joined(node *ir.Node, mp *Mapping) {
	if node.Join == ir.JoinAny { // else it were won
		f := failure(ir.FailInvariant, "none of the %d branches of %s succeeded", len(node.Branches), node.ID)
		if raw, err := ir.Marshal(map[string]any{"failures": mp.Failures.All()}); err == nil {
			f.Data = raw
		}
		if first, ok := mp.Failures.At(0).(map[string]any); ok {
			f.Kind, _ = first["kind"].(string)
		}
		m.fail(f)
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
		if f, bad := failed[string(number(i))]; node.Join == ir.JoinSettled {
			out[b.Name] = map[string]any{"ok": !bad, "result": mp.Results.At(i), "error": f}
		}
	}
	whole := make(map[string]any, len(out))
	for name, v := range out {
		whole[name] = v
	}
	out["result"] = whole
	m.finish(out)
}

// startLoop begins a LOOP: what its first iteration finds is init.
func (m *machine) startLoop(node *ir.Node) {
	var first any
	if len(node.Init) > 0 {
		v, f := ir.Eval(node.Init, m.scope(nil))
		if f != nil {
			f.Message = "init: " + f.Message
			m.fail(f)
			return
		}
		first = v
	}
	m.at.Visit.Map = &Mapping{}
	m.grow(&m.at.Visit.Map.Results, first)
	m.limitTime(node)
	m.advance(m.at)
}

// advanceLoop takes the iteration that has ended, and begins the next one unless the LOOP's condition says otherwise.
func (m *machine) advanceLoop(t *thread, node *ir.Node) {
	mp := t.Visit.Map
	done := false
	if len(mp.Open) > 0 {
		it := mp.Open[0]
		mp.Open = nil
		if it.Failure != nil {
			m.close(t)
			m.fail(innerFailure(node, it, 0))
			return
		}
		mp.Results = List{}
		m.grow(&mp.Results, it.Result)
		if node.Until != nil {
			ok, f := node.Until.True(m.scope(nil).WithItem(it.Result, it.Index))
			if f != nil {
				m.failLoop(t, "until", f)
				return
			}
			done = ok
		}
	}
	if node.While != nil {
		ok, f := node.While.True(m.scope(nil).WithItem(mp.Results.At(0), mp.Begun))
		if f != nil {
			m.failLoop(t, "while", f)
			return
		}
		done = !ok
	}
	switch {
	case done:
		m.close(t)
		m.finish(map[string]any{"result": mp.Results.At(0), "iterations": number(mp.Begun)})
	case mp.Begun >= node.MaxIterations:
		m.close(t)
		m.fail(failure(ir.FailLimit, "%s has not come to its end after max_iterations, which is %d", node.ID, node.MaxIterations))
	default:
		mp.Bytes = 0
		it := &Iteration{Index: mp.Begun, Item: mp.Results.At(0), Lane: newLane()}
		m.beginOne(t, node, it)
	}
}

func (m *machine) failLoop(t *thread, what string, f *ir.Failure) {
	m.close(t)
	f.Message = what + ": " + f.Message
	m.fail(f)
}

// startSubgraph begins a SUBGRAPH with its inputs as $in and $vars of its own.
func (m *machine) startSubgraph(node *ir.Node) {
	in, f := m.inputs(node)
	if f != nil {
		m.fail(f)
		return
	}
	if schema := m.p.SubgraphInputSchema(node); schema != nil {
		problems, err := ladder.Fit(schema, in)
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("%s: %s", cmp.Or(problems[0].Path, "the inputs"), problems[0].Message)
		}
		if err != nil {
			f = failure(ir.FailSchema, "the inputs of %s do not fit the subgraph's input_schema: %v", node.ID, err)
			f.Data = details(map[string]any{"problems": problems})
			m.fallTo(f)
			return
		}
	}
	m.at.Visit.Map = &Mapping{Items: 1}
	m.limitTime(node)
	m.beginOne(m.at, node, &Iteration{Frame: &Frame{Vars: map[string]any{}, In: in}, Lane: newLane()})
}

func (m *machine) advanceSubgraph(t *thread) {
	node, it := m.p.Node(t.Node), t.Visit.Map.Open[0]
	m.close(t)
	if it.Failure != nil {
		m.fail(innerFailure(node, it, 0))
		return
	}
	m.finish(map[string]any{"result": it.Result})
}
