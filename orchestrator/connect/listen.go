package connect

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// insideListener accepts connections from this process, without a port.
type insideListener struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newInsideListener() *insideListener {
	return &insideListener{conns: make(chan net.Conn), ended: make(chan struct{})}
}

func (l *insideListener) dialInside(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *insideListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *insideListener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr implements [net.Listener].
func (*insideListener) Addr() net.Addr { return &net.UnixAddr{Name: "inside", Net: "unix"} }

// unusedConns are connections over which no request came. HTTP clients keep such in store; a server that shuts down would
// wait for them.
type unusedConns struct {
	mu  sync.Mutex
	set map[net.Conn]bool
}

func (u *unusedConns) noteState(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.set[c] = true
	} else {
		delete(u.set, c)
	}
}

func (u *unusedConns) dropUnused() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.set {
		_ = c.Close() // it is worth nothing
	}
}
