// Package idle ends the context of an agent that prints nothing for too long, or that does not exit after it was asked to. Start
// with Watch. It never looks at the words of the agent.
package idle

import (
	"context"
	"sync"
	"time"
)

// Timer cancels a context when the agent prints nothing for too long (idle timeout).
type Timer struct {
	cancel context.CancelCauseFunc
	limit  time.Duration
	mu     sync.Mutex // guards timer and grace against end
	timer  *time.Timer
	grace  *time.Timer
}

// Watch returns a context that ends with cause after limit without output; 0 means never.
func Watch(ctx context.Context, limit time.Duration, cause error) (context.Context, *Timer) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &Timer{cancel: cancel, limit: limit}
	if limit > 0 {
		s.timer = time.AfterFunc(limit, func() { cancel(cause) })
	}
	return ctx, s
}

// Restart restarts the idle timer.
func (s *Timer) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.timer.Stop() {
		s.timer.Reset(s.limit)
	}
}

// EndAfter cancels the context after a delay: the agent has reported its end, or was asked to end, and should have exited
// by then. Only the first call has an effect.
func (s *Timer) EndAfter(after time.Duration, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grace == nil {
		s.grace = time.AfterFunc(after, func() { s.cancel(cause) })
	}
}

// Stop releases the timers and the context.
func (s *Timer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, timer := range []*time.Timer{s.timer, s.grace} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.cancel(nil)
}

// End cancels the context at once.
func (s *Timer) End(cause error) { s.cancel(cause) }
