package engine

import (
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// completeNode completes the current node with its output: all its writes or none, then the edge to the next node.
func (t *thread) completeNode(out any, ports map[string]any) {
	m := t.m
	if m.s.Undoing != nil {
		m.endUndo(nil)
		return
	}
	node := m.p.Node(t.Node)
	writes := make([]write, 0, len(node.Outputs))
	for _, port := range slices.Sorted(maps.Keys(node.Outputs)) {
		v, f := t.readPort(node, port, out, ports)
		if f != nil {
			t.failVisit(f)
			return
		}
		writes = append(writes, write{node.Outputs[port], v})
	}
	if f := t.writeAll(writes...); f != nil {
		t.failVisit(f)
		return
	}
	t.recordUndo(node, out)
	t.followEdge(node, out)
}

// write is a value on its way to $vars or $tmp.
type write struct {
	path  string
	value any
}

// writeAll makes all the writes or none. An iteration has a $tmp of its own; what may run beside others has no $vars to
// write to.
func (t *thread) writeAll(writes ...write) *ir.Failure {
	if len(writes) == 0 {
		return nil
	}
	old, oldTmp := t.vars(), t.Tmp
	var vars map[string]any
	if t.writesVars(t.m.p) {
		vars = maps.Clone(old)
	}
	tmp := maps.Clone(oldTmp)
	for _, w := range writes {
		if f := ir.Assign(w.path, vars, tmp, w.value); f != nil {
			return f
		}
	}
	if vars != nil {
		t.setVars(vars)
	}
	t.Tmp = tmp
	f := t.m.checkSize()
	if f != nil {
		t.Tmp = oldTmp
		if vars != nil {
			t.setVars(old)
		}
	}
	return f
}

// frame is that of the SUBGRAPH in which t runs, nil outside of any.
func (t *thread) frame() *Frame {
	for ; t != nil && t.iteration != nil; t = t.up {
		if t.iteration.Frame != nil {
			return t.iteration.Frame
		}
	}
	return nil
}

// vars are the $vars that the current thread sees.
func (t *thread) vars() map[string]any {
	if f := t.frame(); f != nil {
		return f.Vars
	}
	return t.m.s.Vars
}

func (t *thread) setVars(vars map[string]any) {
	if f := t.frame(); f != nil {
		f.Vars = vars
		return
	}
	t.m.s.Vars, t.m.s.varsSize = vars, 0
}

// writesVars reports whether nothing runs beside t that sees the same $vars.
func (t *thread) writesVars(p *ir.Program) bool {
	for ; t.iteration != nil && t.iteration.Frame == nil; t = t.up {
		if p.Node(t.up.Node).Op != ir.OpLoop {
			return false
		}
	}
	return true
}

// readPort returns the value of an output port: "result" is all of it (where a node runs others inside, its member
// of that name), another name a member. A member that
// the manifest calls optional may be missing.
func (t *thread) readPort(node *ir.Node, port string, out any, ports map[string]any) (any, *ir.Failure) {
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
	for _, field := range t.m.p.Tools[node.Tool].Outputs {
		if field.Name == port && !field.Required {
			return nil, nil
		}
	}
	return nil, newFailure(ir.FailSchema, "the result of %s has no member %q", node.ID, port)
}

// composite reports whether a node runs others inside.
func composite(op ir.Op) bool {
	return op == ir.OpMap || op == ir.OpParallel || op == ir.OpLoop || op == ir.OpSubgraph
}

// checkSize holds what the run keeps against max_state_bytes.
func (m *machine) checkSize() *ir.Failure {
	total, err := m.measureSize()
	switch {
	case err != nil:
		return newFailure(ir.FailStateType, "encode variables: %v", err)
	case total > m.maxStateBytes():
		return newFailure(ir.FailLimit, "$vars and $tmp would take %d bytes; max_state_bytes is %d", total, m.maxStateBytes())
	}
	return nil
}

// measureSize is what $vars and $tmp of all threads take as JSON. $vars is measured when it has changed.
func (m *machine) measureSize() (int, error) {
	if m.s.varsSize == 0 {
		raw, err := ir.Marshal(m.s.Vars)
		if err != nil {
			return 0, err
		}
		m.s.varsSize = len(raw)
	}
	total := m.s.varsSize
	for _, t := range m.threads() {
		if t.Visit != nil && t.Visit.Map != nil {
			total += t.Visit.Map.Bytes
		}
		raw, err := ir.Marshal(t.Tmp)
		if err != nil {
			return 0, err
		}
		total += len(raw)
		if t.iteration == nil || t.iteration.Frame == nil {
			continue
		}
		if raw, err = ir.Marshal(t.iteration.Frame.Vars); err != nil {
			return 0, err
		}
		total += len(raw)
	}
	return total, nil
}
