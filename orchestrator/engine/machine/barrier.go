package machine

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Calls may run concurrently in one sprite if they are iterations of a MAP or PARALLEL that only reads. Two rules hold.
//
// At most limits.max_parallel calls are under way. The others are held until one ends.
//
// A call that emits WAITING goes back to a checkpoint later, and no other call may be under way when the checkpoint is taken
// or restored (DESIGN 23). A barrier ensures this: no new call is sent, the siblings end, the checkpoint is taken, the
// question is asked, and the resumed call runs alone. Then the next waiting call follows, and after the last one the held
// calls are sent. The answer names the checkpoint of the call's own WAITING, the only one in its journal.

// releaseHeld sends the next call that is held, if the concurrency limit allows it. While a call waits at the barrier it takes
// the checkpoint of that call instead. It reports whether it did either.
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

// settleNext takes the checkpoint of the first call at the barrier once no other call is under way.
func (m *Machine) settleNext() bool {
	t := m.thread(m.State.Settling[0])
	asked := t.Visit.Suspended
	if asked == nil || asked.Deferred == nil || m.countCalls() > 0 || slices.ContainsFunc(m.State.Pending, isOf(t.Path)) {
		return false
	}
	t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: t.Visit.Call.Sprite, Durable: m.State.Disk != ""})
	return true
}

// isOf returns a function that reports whether a command belongs to the thread with this path.
func isOf(path string) func(lattice.Command) bool {
	return func(c lattice.Command) bool { return c.Path == path }
}

// countCalls counts the calls and the requests to models that are under way.
func (m *Machine) countCalls() int {
	n := 0
	for _, c := range m.State.Pending {
		if c.Kind == lattice.DoCall || c.Kind == lattice.DoModel {
			n++
		}
	}
	return n
}

// HoldBack holds the command of the current thread if it may not be sent yet. It reports whether it does.
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

// HasSiblings reports whether calls of other iterations may be under way at the same time.
func (t *Thread) HasSiblings() bool {
	for at := t; at.up != nil; at = at.up {
		if t.Run.Program.Width(t.Run.Program.Node(at.up.Node)) > 1 {
			return true
		}
	}
	return false
}

// QueueSettling queues the suspended call of the thread at the barrier.
func (t *Thread) QueueSettling(f lattice.CallSuspended) {
	m := t.Run
	t.Visit.Suspended.Deferred = &f
	if !slices.Contains(m.State.Settling, t.Path) {
		m.State.Settling = append(m.State.Settling, t.Path)
	}
}
