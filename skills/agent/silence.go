package agent

import (
	"context"
	"sync"
	"time"
)

// silence cancels a context when the agent prints nothing for too long (idle timeout).
type silence struct {
	cancel context.CancelCauseFunc
	limit  time.Duration
	mu     sync.Mutex // guards timer and grace against end
	timer  *time.Timer
	grace  *time.Timer
}

// watchSilence returns a context that ends after limit without output; 0 means never.
func watchSilence(ctx context.Context, limit time.Duration) (context.Context, *silence) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &silence{cancel: cancel, limit: limit}
	if limit > 0 {
		s.timer = time.AfterFunc(limit, func() { cancel(errIdle) })
	}
	return ctx, s
}

// restartTimer restarts the idle timer.
func (s *silence) restartTimer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.timer.Stop() {
		s.timer.Reset(s.limit)
	}
}

// endAfter cancels the context after a delay: the agent has reported its end, or was asked to end, and should have exited
// by then. Only the first call has an effect.
func (s *silence) endAfter(after time.Duration, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grace == nil {
		s.grace = time.AfterFunc(after, func() { s.cancel(cause) })
	}
}

// stopTimers releases the timers and the context.
func (s *silence) stopTimers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, timer := range []*time.Timer{s.timer, s.grace} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.cancel(nil)
}
