package scribe

import (
	"maps"
	"sync"

	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// woken holds threads to look at. The zero value is ready; it is safe for concurrent use.
type woken struct {
	mu   sync.Mutex
	all  map[thread.Thread]bool // guarded by mu
	ring chan struct{}          // guarded by mu; has room for one value
	// awaited holds the threads with a run that waits for a review, and the commit of each; guarded by mu.
	awaited map[thread.Thread]string
}

// bell returns the channel that has a value when there are threads.
func (w *woken) bell() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ring == nil {
		w.ring = make(chan struct{}, 1)
	}
	return w.ring
}

// add adds a thread.
func (w *woken) add(t thread.Thread) {
	bell := w.bell()
	w.mu.Lock()
	if w.all == nil {
		w.all = map[thread.Thread]bool{}
	}
	w.all[t] = true
	w.mu.Unlock()
	select {
	case bell <- struct{}{}:
	default: // it was rung
	}
}

// take returns the threads that were added since the last call.
func (w *woken) take() map[thread.Thread]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// setAwaited notes the commit of a thread whose review a run waits for, "" for none.
func (w *woken) setAwaited(t thread.Thread, head string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awaited == nil {
		w.awaited = map[thread.Thread]string{}
	}
	if w.awaited[t] = head; head == "" {
		delete(w.awaited, t)
	}
}

// awaiting returns the threads with a run that waits for a review, and the commit of each.
func (w *woken) awaiting() map[thread.Thread]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.awaited)
}
