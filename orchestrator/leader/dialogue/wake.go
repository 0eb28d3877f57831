package dialogue

import (
	"context"
	"maps"
	"sync"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/intent"
)

// woken holds threads to look at. The zero value is ready; it is safe for concurrent use.
type woken struct {
	mu   sync.Mutex
	all  map[Thread]bool // guarded by mu
	ring chan struct{}   // guarded by mu; has room for one value
	// awaited holds the threads with a run that waits for a review, and the commit of each; guarded by mu.
	awaited map[Thread]string
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

// setAwaited notes the commit of a thread whose review a run waits for, "" for none.
func (w *woken) setAwaited(t Thread, head string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awaited == nil {
		w.awaited = map[Thread]string{}
	}
	if w.awaited[t] = head; head == "" {
		delete(w.awaited, t)
	}
}

// awaiting returns the threads with a run that waits for a review, and the commit of each.
func (w *woken) awaiting() map[Thread]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.awaited)
}

// WakeCommit has Follow look at the pull requests whose review at a commit runs wait for: a check of the CI has ended. After a crash, Follow
// looks at all threads with runs.
func (s *Scribe) WakeCommit(host string, p forge.Path, head string) (outcome string) {
	outcome = "nothing to do: no run waits for a review of the commit"
	for t, awaited := range s.woken.awaiting() {
		if t.Host == host && t.Repo.Equal(p) && awaited == head {
			s.woken.add(t)
			outcome = "the checks are looked at"
		}
	}
	return outcome
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
