package engine

import (
	"slices"
)

// thread is a lane with its place in the run.
type thread struct {
	*Lane
	m         *machine
	path      string     // iteration path; "" is the flow itself
	up        *thread    // whose node this is an iteration of; nil for the flow
	iteration *Iteration // nil for the flow
}

func (m *machine) flow() *thread { return &thread{m: m, Lane: &m.s.Lane} }

// below returns the iterations of the node at which t is, in item order.
func (t *thread) below() []*thread {
	if t.Visit == nil || t.Visit.Map == nil {
		return nil
	}
	all := make([]*thread, len(t.Visit.Map.Open))
	for i, it := range t.Visit.Map.Open {
		all[i] = &thread{m: t.m, Lane: &it.Lane, path: t.innerPath(t.path, it), up: t, iteration: it}
	}
	return all
}

// threads returns the flow and all iterations that were begun and whose results are not taken yet, depth first.
func (m *machine) threads() []*thread {
	var all []*thread
	var visit func(t *thread)
	visit = func(t *thread) {
		all = append(all, t)
		for _, b := range t.below() {
			visit(b)
		}
	}
	visit(m.flow())
	return all
}

// thread finds the thread with this path; nil when there is none.
func (m *machine) thread(path string) *thread {
	t := m.flow()
	for t != nil && t.path != path {
		below := t.below()
		i := slices.IndexFunc(below, func(b *thread) bool { return within(path, b.path) })
		if i < 0 {
			return nil
		}
		t = below[i]
	}
	return t
}

// sprite is the one in which the current thread's calls run.
func (t *thread) sprite() string {
	for at := t; at.up != nil; at = at.up {
		if at.iteration.Sprite != "" {
			return at.iteration.Sprite
		}
	}
	return t.m.s.Sprite
}
