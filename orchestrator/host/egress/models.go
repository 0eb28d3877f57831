package egress

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of the requests that the host answers itself.
const (
	answerHead = 10 * time.Second
	answerIdle = 2 * time.Minute
	maxHead    = 64 << 10
)

// answerHTTP returns a connection at whose far end h answers requests. Its Close ends them and waits for them.
func answerHTTP(h http.Handler) net.Conn {
	near, far := net.Pipe()
	l := &oneConn{conn: far, closed: make(chan struct{})}
	var calls sync.WaitGroup
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1) // by the connection's goroutine, which ends before Close waits
			defer calls.Done()
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: answerHead, IdleTimeout: answerIdle, MaxHeaderBytes: maxHead, ErrorLog: log.New(io.Discard, "", 0), // the sprite's own mistakes
	}
	served := make(chan struct{})
	gone := make(chan struct{})
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed || s == http.StateHijacked {
			close(gone)
		}
	}
	go func() { // ends with Close
		defer close(served)
		_ = server.Serve(l) // it says that it was closed
	}()
	return &answered{Conn: near, end: sync.OnceFunc(func() {
		near.Close()
		<-gone
		server.Close()
		<-served
		calls.Wait()
	})}
}

// answered is a connection to a server of this process.
type answered struct {
	net.Conn
	end func()
}

// Close implements [net.Conn].
func (a *answered) Close() error {
	a.end()
	return nil
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	mu     sync.Mutex // guards conn
	conn   net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (l *oneConn) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "models", Net: "unix"} }
