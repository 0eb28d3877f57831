package agent

import (
	"context"
	"sync"
	"time"
)

// silence ends a context when nothing is heard for too long.
type silence struct {
	cancel context.CancelCauseFunc
	limit  time.Duration
	mu     sync.Mutex // guards timer and grace against end
	timer  *time.Timer
	grace  *time.Timer
}

func watchSilence(ctx context.Context, limit time.Duration) (context.Context, *silence) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &silence{cancel: cancel, limit: limit}
	if limit > 0 {
		s.timer = time.AfterFunc(limit, func() { cancel(errIdle) })
	}
	return ctx, s
}

// heard starts the wait anew.
func (s *silence) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.timer.Stop() {
		s.timer.Reset(s.limit)
	}
}

// soon ends the context when the time is over: the agent has said its last word and should be gone by then.
func (s *silence) soon(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grace == nil {
		s.grace = time.AfterFunc(after, func() { s.cancel(errLingers) })
	}
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, timer := range []*time.Timer{s.timer, s.grace} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.cancel(nil)
}
