package engine

import (
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// finish completes the current node with its output: all its writes or none, then the edge to the next node.
func (m *machine) finish(out any) {
	node := m.p.Node(m.at.Node)
	writes := make([]write, 0, len(node.Outputs))
	for _, port := range slices.Sorted(maps.Keys(node.Outputs)) {
		v, f := m.port(node, port, out)
		if f != nil {
			m.fallTo(f)
			return
		}
		writes = append(writes, write{node.Outputs[port], v})
	}
	if f := m.write(writes...); f != nil {
		m.fallTo(f)
		return
	}
	m.leave(node, out)
}

// write is a value on its way to $vars or $tmp.
type write struct {
	path  string
	value any
}

// write makes all the writes or none. An iteration has a $tmp of its own and no $vars to write to.
func (m *machine) write(writes ...write) *ir.Failure {
	if len(writes) == 0 {
		return nil
	}
	var vars map[string]any
	if m.at.up == nil {
		vars = maps.Clone(m.s.Vars)
	}
	tmp := maps.Clone(m.at.Tmp)
	for _, w := range writes {
		if f := ir.Assign(w.path, vars, tmp, w.value); f != nil {
			return f
		}
	}
	if f := m.fits(vars, tmp); f != nil {
		return f
	}
	if vars != nil {
		m.s.Vars, m.varsSize = vars, 0
	}
	m.at.Tmp = tmp
	return nil
}

// port is the value of an output port: "result" is all of it (of a MAP its list), another name a member. A member that
// the manifest calls optional may be missing.
func (m *machine) port(node *ir.Node, port string, out any) (any, *ir.Failure) {
	if port == "result" && node.Op != ir.OpMap {
		return out, nil
	}
	o, _ := out.(map[string]any)
	if v, ok := o[port]; ok {
		return v, nil
	}
	for _, field := range m.p.Tools[node.Tool].Outputs {
		if field.Name == port && !field.Required {
			return nil, nil
		}
	}
	return nil, failure(ir.FailSchema, "the result of %s has no member %q", node.ID, port)
}

// fits holds what the run would keep, with these for $vars (nil: as they are) and the current $tmp, against
// max_state_bytes.
func (m *machine) fits(vars, tmp map[string]any) *ir.Failure {
	total, err := m.sizeOf(vars, tmp)
	switch {
	case err != nil:
		return failure(ir.FailStateType, "encode variables: %v", err)
	case total > m.maxStateBytes():
		return failure(ir.FailLimit, "$vars and $tmp would take %d bytes; max_state_bytes is %d", total, m.maxStateBytes())
	}
	return nil
}

func (m *machine) sizeOf(vars, tmp map[string]any) (int, error) {
	size := func(v any) (int, error) {
		raw, err := ir.Marshal(v)
		return len(raw), err
	}
	total, err := size(tmp)
	if err != nil {
		return 0, err
	}
	for _, t := range m.threads() {
		if t.Visit != nil && t.Visit.Map != nil {
			total += t.Visit.Map.Bytes
		}
		if t.Lane == m.at.Lane {
			continue
		}
		n, err := size(t.Tmp)
		if err != nil {
			return 0, err
		}
		total += n
	}
	switch {
	case vars != nil:
		n, err := size(vars)
		return total + n, err
	case m.varsSize == 0: // while a MAP is at work they are measured once
		if m.varsSize, err = size(m.s.Vars); err != nil {
			return 0, err
		}
	}
	return total + m.varsSize, nil
}
