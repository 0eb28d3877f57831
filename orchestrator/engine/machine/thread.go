package machine

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
)

// Thread is a lane with its place in the run.
type Thread struct {
	*runstate.Lane
	Run       *Machine
	Path      string              // iteration path; "" is the flow itself
	up        *Thread             // whose node this is an iteration of; nil for the flow
	Iteration *runstate.Iteration // nil for the flow
}

func (m *Machine) flow() *Thread { return &Thread{Run: m, Lane: &m.State.Lane} }

// Below returns the iterations of the node at which t is, in item order.
func (t *Thread) Below() []*Thread {
	if t.Visit == nil || t.Visit.Map == nil {
		return nil
	}
	all := make([]*Thread, len(t.Visit.Map.Open))
	for i, it := range t.Visit.Map.Open {
		all[i] = &Thread{Run: t.Run, Lane: &it.Lane, Path: t.InnerPath(t.Path, it), up: t, Iteration: it}
	}
	return all
}

// threads returns the flow and all iterations that were begun and whose results are not taken yet, depth first.
func (m *Machine) threads() []*Thread {
	var all []*Thread
	var visit func(t *Thread)
	visit = func(t *Thread) {
		all = append(all, t)
		for _, b := range t.Below() {
			visit(b)
		}
	}
	visit(m.flow())
	return all
}

// thread finds the thread with this path; nil when there is none.
func (m *Machine) thread(path string) *Thread {
	t := m.flow()
	for t != nil && t.Path != path {
		below := t.Below()
		i := slices.IndexFunc(below, func(b *Thread) bool { return runstate.Within(path, b.Path) })
		if i < 0 {
			return nil
		}
		t = below[i]
	}
	return t
}

// Sprite is the one in which the current thread's calls run.
func (t *Thread) Sprite() string {
	for at := t; at.up != nil; at = at.up {
		if at.Iteration.Sprite != "" {
			return at.Iteration.Sprite
		}
	}
	return t.Run.State.Sprite
}
