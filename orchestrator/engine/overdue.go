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

// startTimer sets the timer of the current node.
func (t body) startTimer(node *ir.Node) {
	if node.TimeoutS > 0 {
		t.issue(lattice.Command{Kind: lattice.DoTimer, DelayS: node.TimeoutS})
	}
}

// close ends what runs inside of the node at t, and what the node itself wants: its timer, and the checkpoint for copies
// that was not there in time.
func (t *thread) close() {
	m := t.m
	t.Visit.Map = nil
	m.s.Pending, m.commands = slices.DeleteFunc(m.s.Pending, t.issued), slices.DeleteFunc(m.commands, t.issued)
	m.s.Overdue = slices.DeleteFunc(m.s.Overdue, func(path string) bool { return path == t.path })
}

// answered takes the timer of a node that runs others inside.
func (t body) answered(_ *ir.Node, c lattice.Command, f lattice.Fact) error {
	if _, ok := f.(lattice.TimerFired); !ok {
		return unexpected(c, f)
	}
	t.expire()
	return nil
}

// expire begins to give up what runs inside of the current node.
func (t body) expire() {
	t.Visit.Map.Expired = true
	t.m.s.Overdue = append(t.m.s.Overdue, t.path)
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
			if b.mayHaveActed() {
				open = append(open, b.iteration)
			} else {
				b.dropIteration()
			}
		}
		if mp.Open = open; len(open) > 0 {
			continue
		}
		node := m.p.Node(t.Node)
		t.close()
		t.failAttempt(newFailure(ir.FailTimeout, "%s took longer than its %g seconds", node.ID, node.TimeoutS))
		return true
	}
	return false
}

// mayHaveActed reports whether something inside of t may have changed the world, and nobody knows yet.
func (t *thread) mayHaveActed() bool {
	return slices.ContainsFunc(t.m.s.Pending, func(c lattice.Command) bool {
		acts := c.Kind == lattice.DoAction || c.Kind == lattice.DoCall && c.Call.Class == manifests.ClassWorld
		return acts && within(c.Path, t.path)
	}) || slices.ContainsFunc(t.m.s.Waits, func(w lattice.Wait) bool {
		return w.Kind == lattice.WaitUnknown && within(w.Path, t.path)
	})
}
