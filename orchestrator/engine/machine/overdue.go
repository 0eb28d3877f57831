package machine

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Close removes the iterations of the node of t, and the commands of the node itself: its timer and a checkpoint for forks.
func (t *Thread) Close() {
	m := t.Run
	t.Visit.Map = nil
	m.State.Pending, m.commands = slices.DeleteFunc(m.State.Pending, isOf(t.Path)), slices.DeleteFunc(m.commands, isOf(t.Path))
	m.State.Overdue = slices.DeleteFunc(m.State.Overdue, func(path string) bool { return path == t.Path })
}

// giveUpOverdue drops the iterations of nodes whose time is up, and fails the first node that has none left. It reports
// whether a node has failed.
func (m *Machine) giveUpOverdue() bool {
	for _, path := range slices.Clone(m.State.Overdue) {
		if !slices.Contains(m.State.Overdue, path) {
			continue // dropped with the enclosing one
		}
		t := m.thread(path)
		mp := t.Visit.Map
		var open []*runstate.Iteration
		for _, b := range t.Below() {
			if mayHaveActed(&m.State, b.Path) {
				open = append(open, b.Iteration)
			} else {
				b.DropIteration()
			}
		}
		if mp.Open = open; len(open) > 0 {
			continue
		}
		node := m.Program.Node(t.Node)
		t.Close()
		t.FailAttempt(Failf(expr.FailTimeout, "%s took longer than its %g seconds", node.ID, node.TimeoutS))
		return true
	}
	return false
}

// mayHaveActed reports whether a call or action of a thread, or of one inside it, may have changed the world and has no known
// outcome.
func mayHaveActed(s *runstate.State, path string) bool {
	return slices.ContainsFunc(s.Pending, func(c lattice.Command) bool {
		acts := c.Kind == lattice.DoAction || c.Kind == lattice.DoCall && c.Call.Class == manifests.ClassWorld
		return acts && runstate.Within(c.Path, path)
	}) || slices.ContainsFunc(s.Waits, func(w lattice.Wait) bool {
		return w.Kind == lattice.WaitUnknown && runstate.Within(w.Path, path)
	})
}
