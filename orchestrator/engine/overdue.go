package engine

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Time limits of nodes that run others inside. The timer of one attempt begins with it; as a pending command it counts from
// when it was journaled, whoever drives the run later. When it goes off, everything inside is given up, calls under way are
// stopped, questions are withdrawn, and the node fails with timeout.
//
// One thing is not given up: a call that may have changed the world (DESIGN 14). The node waits for its end, or for a
// person to settle it, begins nothing more meanwhile, and fails then.

// limitTime sets the timer of the current node.
func (m *machine) limitTime(node *ir.Node) {
	if node.TimeoutS > 0 {
		m.issue(lattice.Command{Kind: lattice.DoTimer, DelayS: node.TimeoutS})
	}
}

// close ends what runs inside of the node at t, and what the node itself wants: its timer, and the checkpoint for copies
// that was not there in time.
func (m *machine) close(t *thread) {
	t.Visit.Map = nil
	m.s.Pending, m.commands = slices.DeleteFunc(m.s.Pending, t.issued), slices.DeleteFunc(m.commands, t.issued)
	m.s.Overdue = slices.DeleteFunc(m.s.Overdue, func(path string) bool { return path == t.path })
}

// timeUp begins to give up what runs inside of the current node.
func (m *machine) timeUp() {
	m.at.Visit.Map.Expired = true
	m.s.Overdue = append(m.s.Overdue, m.at.path)
}

// giveUpOverdue goes on with the first node whose time is up. It reports whether one of them has failed now.
func (m *machine) giveUpOverdue() bool {
	for _, path := range slices.Clone(m.s.Overdue) {
		if !slices.Contains(m.s.Overdue, path) {
			continue // given up with the one around it
		}
		t := m.thread(path)
		mp := t.Visit.Map
		var open []*Iteration
		for _, b := range t.below() {
			if m.unsettled(b) {
				open = append(open, b.iteration)
			} else {
				m.drop(b)
			}
		}
		if mp.Open = open; len(open) > 0 {
			continue
		}
		m.at = t
		node := m.p.Node(t.Node)
		m.close(t)
		m.fail(failure(ir.FailTimeout, "%s took longer than its %g seconds", node.ID, node.TimeoutS))
		return true
	}
	return false
}

// unsettled reports whether something inside of t may have changed the world, and nobody knows yet.
func (m *machine) unsettled(t *thread) bool {
	return slices.ContainsFunc(m.s.Pending, func(c lattice.Command) bool {
		acts := c.Kind == lattice.DoAction || c.Kind == lattice.DoCall && c.Call.Class == manifests.ClassWorld
		return acts && within(c.Path, t.path)
	}) || slices.ContainsFunc(m.s.Waits, func(w lattice.Wait) bool {
		return w.Kind == lattice.WaitUnknown && within(w.Path, t.path)
	})
}
