package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// setOp is a SET: values for $vars and $tmp.
type setOp struct{ instant }

// begin evaluates all values of a SET before it writes the first, so that two of them can be exchanged.
func (t setOp) begin(node *ir.Node) {
	targets := slices.Sorted(maps.Keys(node.Set))
	writes := make([]write, len(targets))
	for i, target := range targets {
		v, f := ir.Eval(node.Set[target], t.scope(nil))
		if f != nil {
			f.Message = target + ": " + f.Message
			t.failVisit(f)
			return
		}
		writes[i] = write{path: target, value: v}
	}
	if f := t.writeAll(writes...); f != nil {
		t.failVisit(f)
		return
	}
	t.followEdge(node, nil)
}

// emitOp is an EMIT: an event of the flow's own.
type emitOp struct{ instant }

// begin records an event with the state in which the run goes on, so that it is there exactly once.
func (t emitOp) begin(node *ir.Node) {
	v, f := ir.Eval(node.Event, t.scope(nil))
	if f == nil {
		f = ir.CheckEvent(v)
	}
	if f != nil {
		f.Message = "event: " + f.Message
		t.failVisit(f)
		return
	}
	t.m.s.Emitted = append(t.m.s.Emitted, Emitted{Key: t.visitKey("emit"), Node: node.ID, Info: v})
	t.followEdge(node, nil)
}

// waitOp is a WAIT: a pause, or one until an instant.
type waitOp struct{ *thread }

func (t waitOp) answered(node *ir.Node, c lattice.Command, f lattice.Fact) error {
	if _, ok := f.(lattice.TimerFired); !ok {
		return unexpected(c, f)
	}
	t.followEdge(node, nil)
	return nil
}

// begin sets the timer of a WAIT. How long it is until an instant only the driver knows.
func (t waitOp) begin(node *ir.Node) {
	expr := node.Seconds
	if expr == nil {
		expr = node.At
	}
	v, f := ir.Eval(expr, t.scope(nil))
	c := lattice.Command{Kind: lattice.DoTimer}
	switch {
	case f != nil:
	case node.Seconds != nil:
		c.DelayS, f = ir.WaitSeconds(v)
	default:
		var at time.Time
		if at, f = ir.WaitUntil(v); f == nil {
			c.Until = at.Format(time.RFC3339Nano)
		}
	}
	if f != nil {
		t.failVisit(f)
		return
	}
	t.issue(c)
}

// failOp is a FAIL: a failure that the flow itself makes.
type failOp struct{ instant }

// begin fails the visit with the message and kind of the node.
func (t failOp) begin(node *ir.Node) {
	v, f := ir.Eval(node.Message, t.scope(nil))
	message := ""
	if f == nil {
		message, f = formatText(v)
	}
	if f != nil {
		f.Message = "message: " + f.Message
		t.failVisit(f)
		return
	}
	kind := node.Kind
	if kind == "" {
		kind = ir.FailInvariant
	}
	t.failVisit(&ir.Failure{Kind: kind, Message: message})
}

// endOp is an END: the end of the flow, or of the iteration in which it is.
type endOp struct{ instant }

// begin completes the thread with the output of the node.
func (t endOp) begin(node *ir.Node) {
	var out any
	if node.Output != nil {
		v, f := ir.Eval(node.Output, t.scope(nil))
		if f != nil {
			f.Message = "output: " + f.Message
			t.failVisit(f)
			return
		}
		out = v
	}
	t.completeThread(node, out)
}

// packOp is a PACK: its output is an object of its inputs.
type packOp struct{ instant }

func (t packOp) begin(node *ir.Node) {
	out, f := t.evalInputs(node)
	if f != nil {
		t.failVisit(f)
		return
	}
	t.completeNode(out, nil)
}

// mergeOp is a MERGE: several values joined to one.
type mergeOp struct{ instant }

func (t mergeOp) begin(node *ir.Node) {
	inputs := make([]any, len(node.From))
	for i := range inputs {
		v, f := ir.Eval(node.From[i], t.scope(nil))
		if f != nil {
			f.Message = fmt.Sprintf("input %d: %s", i, f.Message)
			t.failVisit(f)
			return
		}
		inputs[i] = v
	}
	out, f := node.Merge(inputs)
	if f != nil {
		t.failVisit(f)
		return
	}
	t.completeNode(out, nil)
}

// switchOp is a SWITCH: the first case that is true.
type switchOp struct{ instant }

func (t switchOp) begin(node *ir.Node) {
	chosen := node.Default
	for _, c := range node.Cases {
		ok, f := c.When.True(t.scope(nil))
		if f != nil {
			t.failVisit(f)
			return
		}
		if ok {
			chosen = c.Name
			break
		}
	}
	if chosen == "" {
		t.failVisit(newFailure(ir.FailNoEdge, "no case of %s is true and there is no default", node.ID))
		return
	}
	t.completeNode(map[string]any{"case": chosen}, nil)
}
