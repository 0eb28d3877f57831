package engine

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Calls that run at once in one sprite, which the iterations of a MAP do whose body only reads, keep two rules.
//
// At most limits.max_parallel of them are under way; the others are held until one ends.
//
// A call that emits WAITING goes back to a checkpoint later, and no other call may be under way at either moment
// (DESIGN 23). So it is settled alone: nothing new goes out, the calls beside it come to their end, a checkpoint is taken
// then, the question is asked, and the resumed call runs by itself. Then the next one that waits is settled, and after
// the last of them what was held goes on. The answer still names the checkpoint of the call's own WAITING: its journal
// knows no other.

// releaseHeld lets out what was held, as far as there is room, or begins to settle a call when those beside it have ended.
// It reports whether it did something.
func (m *machine) releaseHeld() bool {
	if len(m.s.Settling) > 0 {
		return m.settleNext()
	}
	if len(m.s.Held) == 0 || m.countCalls() >= m.p.MaxParallel() {
		return false
	}
	next := slices.IndexFunc(m.s.Held, func(path string) bool { return !m.thread(path).answerPending() })
	if next < 0 {
		return false
	}
	t := m.thread(m.s.Held[next])
	asks := t.Visit.Asking != nil
	if asks && m.budgetInUse() {
		return false
	}
	m.s.Held = slices.Delete(m.s.Held, next, next+1)
	t.operation().(dispatcher).dispatch()
	return true
}

// settleNext takes the checkpoint of the call that is settled now, once nothing else is under way.
func (m *machine) settleNext() bool {
	t := m.thread(m.s.Settling[0])
	asked := t.Visit.Suspended
	if asked == nil || asked.Deferred == nil || m.countCalls() > 0 || slices.ContainsFunc(m.s.Pending, t.issued) {
		return false
	}
	t.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: t.Visit.Call.Sprite, Durable: m.s.Disk != ""})
	return true
}

func (t *thread) issued(c lattice.Command) bool { return c.Path == t.path }

// countCalls counts the calls under way, and the questions to models.
func (m *machine) countCalls() int {
	n := 0
	for _, c := range m.s.Pending {
		if c.Kind == lattice.DoCall || c.Kind == lattice.DoModel {
			n++
		}
	}
	return n
}

// holdBack keeps the current thread's call back, if it may not go out yet.
func (t *thread) holdBack() bool {
	m := t.m
	free := m.countCalls() < m.p.MaxParallel() && !(t.Visit.Asking != nil && m.budgetInUse())
	if len(m.s.Settling) > 0 {
		free = m.s.Settling[0] == t.path
	}
	free = free && !t.answerPending()
	if !free {
		m.s.Held = append(m.s.Held, t.path)
	}
	return !free
}

// hasSiblings reports whether calls of other iterations may be under way together with the current one's.
func (t *thread) hasSiblings() bool {
	for at := t; at.up != nil; at = at.up {
		if t.m.p.Width(t.m.p.Node(at.up.Node)) > 1 {
			return true
		}
	}
	return false
}

// queueSettling has the current thread's call settled when its turn comes.
func (t *thread) queueSettling(f lattice.CallSuspended) {
	m := t.m
	t.Visit.Suspended.Deferred = &f
	if !slices.Contains(m.s.Settling, t.path) {
		m.s.Settling = append(m.s.Settling, t.path)
	}
}

// leaveSettling makes way for the next call that waits, when the current thread's has ended.
func (t *thread) leaveSettling() {
	t.m.s.Settling = slices.DeleteFunc(t.m.s.Settling, func(path string) bool { return path == t.path })
}
