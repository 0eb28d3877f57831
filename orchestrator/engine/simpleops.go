package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// set evaluates all values of a SET before it writes the first, so that two of them can be exchanged.
func (m *machine) set(node *ir.Node) {
	targets := slices.Sorted(maps.Keys(node.Set))
	writes := make([]write, len(targets))
	for i, target := range targets {
		v, f := ir.Eval(node.Set[target], m.scope(nil))
		if f != nil {
			f.Message = target + ": " + f.Message
			m.fallTo(f)
			return
		}
		writes[i] = write{target, v}
	}
	if f := m.write(writes...); f != nil {
		m.fallTo(f)
		return
	}
	m.leave(node, nil)
}

// emit records an event with the state in which the run goes on, so that it is there exactly once.
func (m *machine) emit(node *ir.Node) {
	v, f := ir.Eval(node.Event, m.scope(nil))
	if f == nil {
		f = ir.CheckEvent(v)
	}
	if f != nil {
		f.Message = "event: " + f.Message
		m.fallTo(f)
		return
	}
	m.s.Emitted = append(m.s.Emitted, Emitted{Key: m.visitKey("emit"), Node: node.ID, Info: v})
	m.leave(node, nil)
}

// startWait sets the timer of a WAIT. How long it is until an instant only the driver knows.
func (m *machine) startWait(node *ir.Node) {
	expr := node.Seconds
	if expr == nil {
		expr = node.At
	}
	v, f := ir.Eval(expr, m.scope(nil))
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
		m.fallTo(f)
		return
	}
	m.issue(c)
}

// giveCause is a FAIL.
func (m *machine) giveCause(node *ir.Node) {
	v, f := ir.Eval(node.Message, m.scope(nil))
	message := ""
	if f == nil {
		message, f = text(v)
	}
	if f != nil {
		f.Message = "message: " + f.Message
		m.fallTo(f)
		return
	}
	kind := node.Kind
	if kind == "" {
		kind = ir.FailInvariant
	}
	m.fallTo(&ir.Failure{Kind: kind, Message: message})
}

// endHere is an END.
func (m *machine) endHere(node *ir.Node) {
	var out any
	if node.Output != nil {
		v, f := ir.Eval(node.Output, m.scope(nil))
		if f != nil {
			f.Message = "output: " + f.Message
			m.fallTo(f)
			return
		}
		out = v
	}
	m.complete(node, out)
}
