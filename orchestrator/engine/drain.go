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

// release lets out what was held, as far as there is room, or begins to settle a call when those beside it have ended.
// It reports whether it did something.
func (m *machine) release() bool {
	if len(m.s.Settling) > 0 {
		return m.settle()
	}
	if len(m.s.Held) == 0 || m.calls() >= m.p.MaxParallel() {
		return false
	}
	next := slices.IndexFunc(m.s.Held, func(path string) bool { return !m.beingAsked(m.thread(path)) })
	if next < 0 {
		return false
	}
	at := m.thread(m.s.Held[next])
	asks := at.Visit.Asking != nil
	if asks && m.alone() {
		return false
	}
	m.at = at
	m.s.Held = slices.Delete(m.s.Held, next, next+1)
	if asks {
		m.question()
	} else {
		m.dispatch()
	}
	return true
}

// settle takes the checkpoint of the call that is settled now, once nothing else is under way.
func (m *machine) settle() bool {
	t := m.thread(m.s.Settling[0])
	asked := t.Visit.Suspended
	if asked == nil || asked.Deferred == nil || m.calls() > 0 || slices.ContainsFunc(m.s.Pending, t.issued) {
		return false
	}
	m.at = t
	m.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: t.Visit.Call.Sprite, Durable: m.s.Disk != ""})
	return true
}

func (t *thread) issued(c lattice.Command) bool { return c.Path == t.path }

// calls counts the calls under way, and the questions to models.
func (m *machine) calls() int {
	n := 0
	for _, c := range m.s.Pending {
		if c.Kind == lattice.DoCall || c.Kind == lattice.DoModel {
			n++
		}
	}
	return n
}

// hold keeps the current thread's call back, if it may not go out yet.
func (m *machine) hold() bool {
	free := m.calls() < m.p.MaxParallel() && !(m.at.Visit.Asking != nil && m.alone())
	if len(m.s.Settling) > 0 {
		free = m.s.Settling[0] == m.at.path
	}
	free = free && !m.beingAsked(m.at)
	if !free {
		m.s.Held = append(m.s.Held, m.at.path)
	}
	return !free
}

// besides reports whether calls of other iterations may be under way together with the current one's.
func (m *machine) besides() bool {
	for t := m.at; t.up != nil; t = t.up {
		if m.p.Width(m.p.Node(t.up.Node)) > 1 {
			return true
		}
	}
	return false
}

// queue has the current thread's call settled when its turn comes.
func (m *machine) queue(f lattice.CallSuspended) {
	m.at.Visit.Suspended.Deferred = &f
	if !slices.Contains(m.s.Settling, m.at.path) {
		m.s.Settling = append(m.s.Settling, m.at.path)
	}
}

// leaveQueue makes way for the next call that waits, when the current thread's has ended.
func (m *machine) leaveQueue() {
	m.s.Settling = slices.DeleteFunc(m.s.Settling, func(path string) bool { return path == m.at.path })
}
