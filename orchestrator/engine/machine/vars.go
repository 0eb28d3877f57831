package machine

import (
	"maps"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Write is a value on its way to $vars or $tmp.
type Write struct {
	Path  string
	Value any
}

// WriteAll makes all the writes or none. An iteration has a $tmp of its own; iterations that run concurrently have no $vars to
// write to.
func (t *Thread) WriteAll(writes ...Write) *expr.Failure {
	if len(writes) == 0 {
		return nil
	}
	old, oldTmp := t.vars(), t.Tmp
	var vars map[string]any
	if t.writesVars(t.Run.Program) {
		vars = maps.Clone(old)
	}
	tmp := maps.Clone(oldTmp)
	for _, w := range writes {
		if f := expr.Assign(w.Path, vars, tmp, w.Value); f != nil {
			return f
		}
	}
	if vars != nil {
		t.setVars(vars)
	}
	t.Tmp = tmp
	f := t.Run.checkSize()
	if f != nil {
		t.Tmp = oldTmp
		if vars != nil {
			t.setVars(old)
		}
	}
	return f
}

// frame is that of the SUBGRAPH in which t runs, nil outside of any.
func (t *Thread) frame() *runstate.Frame {
	for ; t != nil && t.Iteration != nil; t = t.up {
		if t.Iteration.Frame != nil {
			return t.Iteration.Frame
		}
	}
	return nil
}

// vars are the $vars that the current thread sees.
func (t *Thread) vars() map[string]any {
	if f := t.frame(); f != nil {
		return f.Vars
	}
	return t.Run.State.Vars
}

func (t *Thread) setVars(vars map[string]any) {
	if f := t.frame(); f != nil {
		f.Vars = vars
		return
	}
	t.Run.State.Vars, t.Run.State.VarsSize = vars, 0
}

// writesVars reports whether t may write $vars: no concurrent iteration sees the same ones.
func (t *Thread) writesVars(p *ir.Program) bool {
	for ; t.Iteration != nil && t.Iteration.Frame == nil; t = t.up {
		if p.Node(t.up.Node).Op != ir.OpLoop {
			return false
		}
	}
	return true
}

// ReadPort returns the value of an output port: the member with its name, which may be missing if the manifest calls it
// optional. The port "result" is the whole output, except for a node that runs others inside.
func ReadPort(p *ir.Program, node *ir.Node, port string, out any, ports map[string]any) (any, *expr.Failure) {
	if port == "result" && !composite(node.Op) {
		return out, nil
	}
	o, _ := out.(map[string]any)
	if v, ok := o[port]; ok {
		return v, nil
	}
	if v, ok := ports[port]; ok {
		return v, nil
	}
	for _, field := range p.Tools[node.Tool].Outputs {
		if field.Name == port && !field.Required {
			return nil, nil
		}
	}
	return nil, Failf(expr.FailSchema, "the result of %s has no member %q", node.ID, port)
}

// composite reports whether a node runs others inside.
func composite(op ir.Op) bool {
	return op == ir.OpMap || op == ir.OpParallel || op == ir.OpLoop || op == ir.OpSubgraph
}

// checkSize compares the size of the state with max_state_bytes.
func (m *Machine) checkSize() *expr.Failure {
	total, err := m.measureSize()
	switch {
	case err != nil:
		return Failf(expr.FailStateType, "encode variables: %v", err)
	case total > m.maxStateBytes():
		return Failf(expr.FailLimit, "$vars and $tmp would take %d bytes; max_state_bytes is %d", total, m.maxStateBytes())
	}
	return nil
}

// measureSize returns the size of $vars and $tmp of all threads as JSON. $vars is measured only when it has changed.
func (m *Machine) measureSize() (int, error) {
	if m.State.VarsSize == 0 {
		raw, err := expr.Marshal(m.State.Vars)
		if err != nil {
			return 0, err
		}
		m.State.VarsSize = len(raw)
	}
	total := m.State.VarsSize
	for _, t := range m.threads() {
		if t.Visit != nil && t.Visit.Map != nil {
			total += t.Visit.Map.Bytes
		}
		raw, err := expr.Marshal(t.Tmp)
		if err != nil {
			return 0, err
		}
		total += len(raw)
		if t.Iteration == nil || t.Iteration.Frame == nil {
			continue
		}
		if raw, err = expr.Marshal(t.Iteration.Frame.Vars); err != nil {
			return 0, err
		}
		total += len(raw)
	}
	return total, nil
}
