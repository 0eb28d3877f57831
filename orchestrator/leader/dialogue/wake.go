package dialogue

import (
	"context"
	"sync"

	"github.com/spritekit/lattice/orchestrator/intent"
)

// woken holds threads to look at. The zero value is ready; it is safe for concurrent use.
type woken struct {
	mu   sync.Mutex
	all  map[Thread]bool // guarded by mu
	ring chan struct{}   // guarded by mu; has room for one value
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
func (w *woken) add(t Thread) {
	bell := w.bell()
	w.mu.Lock()
	if w.all == nil {
		w.all = map[Thread]bool{}
	}
	w.all[t] = true
	w.mu.Unlock()
	select {
	case bell <- struct{}{}:
	default: // it was rung
	}
}

// take returns the threads that were added since the last call.
func (w *woken) take() map[Thread]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// Wake has Follow show a thread soon, if subject names one: an intent about it begins or ends to wait for people.
func (s *Scribe) Wake(subject string) {
	if t, ok := ParseThread(subject); ok && s.Hosts[t.Host].Client != nil {
		s.woken.add(t)
	}
}

// gatedLooked bounds the intents that are looked at when a process begins, the newest ones.
const gatedLooked = 200

// wakeGated wakes the threads of intents that wait when this process begins: a crash may have kept it from asking.
func (s *Scribe) wakeGated(ctx context.Context) {
	all, err := s.Runs.Intents(ctx, "", gatedLooked)
	if err != nil && ctx.Err() == nil {
		s.Logger.Error().Err(err).Msg("look at the intents of threads")
	}
	for _, one := range all {
		if one.Status == intent.Gated {
			s.Wake(one.Subject)
		}
	}
}
