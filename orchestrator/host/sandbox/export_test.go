package sandbox

import (
	"context"
)

// Spare waits for the init that s makes ahead, leaves it there, and returns its process id; 0 if there is none.
func (s *Starter) Spare() int {
	s.mu.Lock()
	made := s.next
	s.mu.Unlock()
	k := <-made.offer
	<-made.gone
	if k == nil {
		return 0
	}
	ctx, cancel := context.WithCancel(context.Background())
	again := &spare{kind: made.kind, begun: true, offer: make(chan *kept), gone: make(chan struct{}), cancel: cancel}
	s.mu.Lock()
	s.next = again
	s.mu.Unlock()
	s.work.Go(func() {
		defer cancel()
		defer close(again.gone)
		defer close(again.offer)
		again.holdInit(ctx, k)
	})
	return k.cmd.Process.Pid
}

// InitPID is the process id of the box's init on the host.
func (b *Box) InitPID() int { return b.cmd.Process.Pid }
