// Package patient keeps a server listening while the machine is short of something. Start with Listener. An accepted
// connection takes an epoll entry and memory of the kernel, of which another process of the same user, in a sandbox perhaps,
// may take all there is: that passes, and a server that ended by it would not come back. It never hides other errors.
package patient

import (
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Between attempts to accept while something is short.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Listener returns l with an Accept that waits while the machine is short of descriptors, memory or epoll entries.
func Listener(l net.Listener) net.Listener {
	closed := make(chan struct{})
	return &listener{l, closed, sync.OnceValue(func() error {
		close(closed)
		return l.Close()
	})}
}

type listener struct {
	net.Listener
	closed chan struct{}
	close  func() error
}

// Accept implements [net.Listener].
func (p *listener) Accept() (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		conn, err := p.Listener.Accept()
		if err == nil || !isShortage(err) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-p.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements [net.Listener].
func (p *listener) Close() error { return p.close() }

func isShortage(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.ENOMEM, syscall.ENOBUFS, syscall.EMFILE, syscall.ENFILE}, func(e error) bool { return errors.Is(err, e) })
}
