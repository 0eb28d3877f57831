package drive

import "sync"

// Watchers wakes those who wait for a run to change. It is safe for concurrent use.
type Watchers struct {
	mu      sync.Mutex
	changed map[string]chan struct{} // guarded by mu: by run; closed and removed when the run changes
}

// Notify wakes those who wait for a run.
func (w *Watchers) Notify(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeRun(id)
	w.wakeRun(AnyRun)
}

// AnyRun stands for all runs in Wait.
const AnyRun = ""

// notifyAll wakes those who wait for any run.
func (w *Watchers) notifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.changed {
		w.wakeRun(id)
	}
}

// wakeRun requires mu.
func (w *Watchers) wakeRun(id string) {
	if c, ok := w.changed[id]; ok {
		close(c)
		delete(w.changed, id)
	}
}

// Wait returns a channel that is closed at the run's next change.
func (w *Watchers) Wait(id string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = map[string]chan struct{}{}
	}
	c, ok := w.changed[id]
	if !ok {
		c = make(chan struct{})
		w.changed[id] = c
	}
	return c
}
