package machine

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
func (m *Machine) releaseHeld() bool {
	if len(m.State.Settling) > 0 {
		return m.settleNext()
	}
	if len(m.State.Held) == 0 || m.countCalls() >= m.Program.MaxParallel() {
		return false
	}
	next := slices.IndexFunc(m.State.Held, func(path string) bool { return !m.thread(path).answerPending() })
	if next < 0 {
		return false
	}
	t := m.thread(m.State.Held[next])
	asks := t.Visit.Asking != nil
	if asks && m.budgetInUse() {
		return false
	}
	m.State.Held = slices.Delete(m.State.Held, next, next+1)
	t.operation().(dispatcher).Dispatch()
	return true
}

// settleNext takes the checkpoint of the call that is settled now, once nothing else is under way.
func (m *Machine) settleNext() bool {
	t := m.thread(m.State.Settling[0])
	asked := t.Visit.Suspended
	if asked == nil || asked.Deferred == nil || m.countCalls() > 0 || slices.ContainsFunc(m.State.Pending, t.issued) {
		return false
	}
	t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: t.Visit.Call.Sprite, Durable: m.State.Disk != ""})
	return true
}

func (t *Thread) issued(c lattice.Command) bool { return c.Path == t.Path }

// countCalls counts the calls under way, and the questions to models.
func (m *Machine) countCalls() int {
	n := 0
	for _, c := range m.State.Pending {
		if c.Kind == lattice.DoCall || c.Kind == lattice.DoModel {
			n++
		}
	}
	return n
}

// HoldBack keeps the current thread's call back, if it may not go out yet.
func (t *Thread) HoldBack() bool {
	m := t.Run
	free := m.countCalls() < m.Program.MaxParallel() && !(t.Visit.Asking != nil && m.budgetInUse())
	if len(m.State.Settling) > 0 {
		free = m.State.Settling[0] == t.Path
	}
	free = free && !t.answerPending()
	if !free {
		m.State.Held = append(m.State.Held, t.Path)
	}
	return !free
}

// HasSiblings reports whether calls of other iterations may be under way together with the current one's.
func (t *Thread) HasSiblings() bool {
	for at := t; at.up != nil; at = at.up {
		if t.Run.Program.Width(t.Run.Program.Node(at.up.Node)) > 1 {
			return true
		}
	}
	return false
}

// QueueSettling has the current thread's call settled when its turn comes.
func (t *Thread) QueueSettling(f lattice.CallSuspended) {
	m := t.Run
	t.Visit.Suspended.Deferred = &f
	if !slices.Contains(m.State.Settling, t.Path) {
		m.State.Settling = append(m.State.Settling, t.Path)
	}
}

// LeaveSettling makes way for the next call that waits, when the current thread's has ended.
func (t *Thread) LeaveSettling() {
	t.Run.State.Settling = slices.DeleteFunc(t.Run.State.Settling, func(path string) bool { return path == t.Path })
}
