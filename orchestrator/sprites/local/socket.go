package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A sprite may ask for a few checkpoints at once, and then for one in so many seconds: each costs the host a copy.
const (
	insideBurst    = 30
	insideEvery    = time.Second
	insideDeadline = 10 * time.Second // for the head of a request
	insideConns    = 32               // connections at once; more wait in the kernel
)

// insideServer serves /.sprite/api.sock of one sprite: its own checkpoints and tasks, nothing else. Which sprite asks is known by
// the socket that it came through, not by anything it says.
type insideServer struct {
	path   string
	server *http.Server
	serve  sync.WaitGroup
	calls  sync.WaitGroup
	cancel context.CancelFunc

	mu    sync.Mutex // guards the fields below
	spare int        // requests that may come at once
	since time.Time  // when spare was right
}

// listenInside opens the socket of a sprite.
func (h *Host) listenInside(id, name string) (*insideServer, error) {
	dir := h.runDir(id)
	s := &insideServer{path: filepath.Join(dir, "api.sock"), spare: insideBurst, since: time.Now()}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := listenIn(dir, "api.sock")
	if err != nil {
		return nil, err
	}
	// Commands run as another user; what keeps other people of this machine out is the mode of the host's directory.
	if err := os.Chmod(s.path, 0o666); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(h.ctx)
	s.server = &http.Server{
		Handler: s.routes(h, id, name), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: insideDeadline, IdleTimeout: insideDeadline, MaxHeaderBytes: 16 << 10,
	}
	s.serve.Go(func() {
		if err := s.server.Serve(newLimited(listener, insideConns)); !errors.Is(err, http.ErrServerClosed) {
			h.cfg.Log.Error().Err(err).Str("sprite", name).Msg("the sprite's own socket has ended")
		}
	})
	return s, nil
}

func (s *insideServer) routes(h *Host, id, name string) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := fn(w, r); err != nil {
				h.refuse(w, r, err)
			}
		})
	}
	handle("POST /v1/checkpoint", func(w http.ResponseWriter, r *http.Request) error {
		if !s.allow() {
			w.Header().Set("Retry-After", "1")
			return &apiError{http.StatusTooManyRequests, "checkpoint_rate_limited", "too many checkpoints at once; try again in a second"}
		}
		return h.checkpointNamed(w, r, name)
	})
	handle("GET /v1/checkpoints", func(w http.ResponseWriter, r *http.Request) error {
		return h.listNamed(w, name, false, "")
	})
	handle("GET /v1/checkpoints/{id}", func(w http.ResponseWriter, r *http.Request) error {
		return h.getNamed(w, name, r.PathValue("id"))
	})
	h.taskRoutes(handle, "/v1/tasks", func(*http.Request) (*sprite, func(), error) {
		rec, err := h.store.sprite(name)
		if err == nil && rec.ID != id {
			err = errNoSprite
		}
		if err != nil {
			return nil, nil, err
		}
		s, err := h.runtime(rec)
		return s, func() {}, err
	})
	handle("/", func(http.ResponseWriter, *http.Request) error {
		return &apiError{http.StatusNotFound, "not_found", "from inside, a sprite can create and list its checkpoints, keep its tasks, and nothing else"}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sprite-Version", apiVersion)
		s.calls.Add(1) // before close waits: close first waits for every connection's goroutine to be refused
		defer s.calls.Done()
		mux.ServeHTTP(w, r)
	})
}

// allow takes one request from the budget.
func (s *insideServer) allow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if earned := int(time.Since(s.since) / insideEvery); earned > 0 {
		s.spare = min(s.spare+earned, insideBurst)
		s.since = s.since.Add(time.Duration(earned) * insideEvery)
	}
	if s.spare == 0 {
		return false
	}
	s.spare--
	return true
}

// close refuses further calls, ends those under way and waits for them.
func (s *insideServer) close() error {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), insideDeadline)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	s.serve.Wait()
	s.calls.Wait()
	if gone := os.Remove(s.path); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// limited accepts a bounded number of connections at once, so that what runs in a sprite cannot use up the host's
// descriptors.
type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	close  func() error
}

func newLimited(l net.Listener, n int) *limited {
	closed := make(chan struct{})
	return &limited{l, make(chan struct{}, n), closed, sync.OnceValue(func() error {
		close(closed)
		return l.Close()
	})}
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{conn, sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements [net.Listener].
func (l *limited) Close() error { return l.close() }

type limitedConn struct {
	net.Conn
	release func()
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// listenIn listens on a unix socket in dir whatever the length of dir: the kernel takes names of some hundred bytes only,
// so the directory is named by descriptor where that is possible.
func listenIn(dir, name string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", d.Fd())
	if _, err := os.Stat(path); err != nil {
		path = dir
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(path, name), Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // by then the descriptor names something else
	return listener, nil
}
