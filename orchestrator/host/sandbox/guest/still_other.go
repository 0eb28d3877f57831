//go:build !linux

package guest

import (
	"context"
	"sync"
	"syscall"
)

// stillness stops the process groups of commands. Whether they stand still cannot be seen here, nor who left their groups.
type stillness struct {
	mu      sync.Mutex // guards stopped
	stopped []int      // process groups
}

func (st *stillness) stopAll(_ context.Context, s *server) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.pids {
		if syscall.Kill(-pid, syscall.SIGSTOP) == nil {
			st.stopped = append(st.stopped, pid)
		}
	}
	return nil
}

func (st *stillness) continueAll(*server) (ran bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, pid := range st.stopped {
		syscall.Kill(-pid, syscall.SIGCONT) // gone already is as good
	}
	st.stopped = nil
	return false
}
