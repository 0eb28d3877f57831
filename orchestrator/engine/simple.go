package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// setOp is a SET: values for $vars and $tmp.
type setOp struct{ instant }

// Begin evaluates all values of a SET before it writes the first, so that two of them can be exchanged.
func (t setOp) Begin(node *ir.Node) {
	targets := slices.Sorted(maps.Keys(node.Set))
	writes := make([]machine.Write, len(targets))
	for i, target := range targets {
		v, f := expr.Eval(node.Set[target], t.Scope(nil))
		if f != nil {
			f.Message = target + ": " + f.Message
			t.FailVisit(f)
			return
		}
		writes[i] = machine.Write{Path: target, Value: v}
	}
	if f := t.WriteAll(writes...); f != nil {
		t.FailVisit(f)
		return
	}
	t.FollowEdge(node, nil)
}

// emitOp is an EMIT: an event of the flow's own.
type emitOp struct{ instant }

// Begin records an event with the state in which the run goes on, so that it is there exactly once.
func (t emitOp) Begin(node *ir.Node) {
	v, f := expr.Eval(node.Event, t.Scope(nil))
	if f == nil {
		f = check.CheckEvent(v)
	}
	if f != nil {
		f.Message = "event: " + f.Message
		t.FailVisit(f)
		return
	}
	t.Run.State.Emitted = append(t.Run.State.Emitted, runstate.Emitted{Key: t.VisitKey("emit"), Node: node.ID, Info: v})
	t.FollowEdge(node, nil)
}

// waitOp is a WAIT: a pause, or one until an instant.
type waitOp struct{ *machine.Thread }

func (t waitOp) Answered(node *ir.Node, c lattice.Command, f lattice.Fact) error {
	if _, ok := f.(lattice.TimerFired); !ok {
		return unexpectedFact(c, f)
	}
	t.FollowEdge(node, nil)
	return nil
}

// Begin sets the timer of a WAIT. How long it is until an instant only the driver knows.
func (t waitOp) Begin(node *ir.Node) {
	expression := node.Seconds
	if expression == nil {
		expression = node.At
	}
	v, f := expr.Eval(expression, t.Scope(nil))
	c := lattice.Command{Kind: lattice.DoTimer}
	switch {
	case f != nil:
	case node.Seconds != nil:
		c.DelayS, f = check.WaitSeconds(v)
	default:
		var at time.Time
		if at, f = check.WaitUntil(v); f == nil {
			c.Until = at.Format(time.RFC3339Nano)
		}
	}
	if f != nil {
		t.FailVisit(f)
		return
	}
	t.Issue(c)
}

// failOp is a FAIL: a failure that the flow itself makes.
type failOp struct{ instant }

// Begin fails the visit with the message and kind of the node.
func (t failOp) Begin(node *ir.Node) {
	v, f := expr.Eval(node.Message, t.Scope(nil))
	message := ""
	if f == nil {
		message, f = formatText(v)
	}
	if f != nil {
		f.Message = "message: " + f.Message
		t.FailVisit(f)
		return
	}
	kind := cmp.Or(node.Kind, expr.FailInvariant)
	t.FailVisit(&expr.Failure{Kind: kind, Message: message})
}

// endOp is an END: the end of the flow, or of the iteration in which it is.
type endOp struct{ instant }

// Begin completes the thread with the output of the node.
func (t endOp) Begin(node *ir.Node) {
	var out any
	if node.Output != nil {
		v, f := expr.Eval(node.Output, t.Scope(nil))
		if f != nil {
			f.Message = "output: " + f.Message
			t.FailVisit(f)
			return
		}
		out = v
	}
	t.CompleteThread(node, out)
}

// packOp is a PACK: its output is an object of its inputs.
type packOp struct{ instant }

func (t packOp) Begin(node *ir.Node) {
	out, f := t.EvalInputs(node)
	if f != nil {
		t.FailVisit(f)
		return
	}
	t.CompleteNode(out, nil)
}

// mergeOp is a MERGE: several values joined to one.
type mergeOp struct{ instant }

func (t mergeOp) Begin(node *ir.Node) {
	inputs := make([]any, len(node.From))
	for i := range inputs {
		v, f := expr.Eval(node.From[i], t.Scope(nil))
		if f != nil {
			f.Message = fmt.Sprintf("input %d: %s", i, f.Message)
			t.FailVisit(f)
			return
		}
		inputs[i] = v
	}
	out, f := node.Merge(inputs)
	if f != nil {
		t.FailVisit(f)
		return
	}
	t.CompleteNode(out, nil)
}

// switchOp is a SWITCH: the first case that is true.
type switchOp struct{ instant }

func (t switchOp) Begin(node *ir.Node) {
	chosen := node.Default
	for _, c := range node.Cases {
		ok, f := c.When.True(t.Scope(nil))
		if f != nil {
			t.FailVisit(f)
			return
		}
		if ok {
			chosen = c.Name
			break
		}
	}
	if chosen == "" {
		t.FailVisit(machine.Failf(expr.FailNoEdge, "no case of %s is true and it has no default", node.ID))
		return
	}
	t.CompleteNode(map[string]any{"case": chosen}, nil)
}
