package fleet

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

	"github.com/spritekit/lattice/orchestrator/patient"
	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
)

// A sprite may ask a few things at once, and then one in so much time: answers take the host's processor time, and each
// checkpoint costs the host a copy.
const (
	CallBurst       = 500
	callEvery       = 10 * time.Millisecond
	checkpointBurst = 30
	checkpointEvery = time.Second
	insideDeadline  = 10 * time.Second // for the head of a request
	InsideConns     = 32               // connections at once, each a descriptor of the host; more wait in the kernel
	insideEnd       = time.Second      // for requests under way when the socket closes: who asked has ended before
	// maxOwn is how many checkpoints a sprite has at most before its own requests for more are refused. From outside the number is not bounded.
	maxOwn = 1000
)

// Inside serves /.sprite/api.sock of one sprite: its own checkpoints, tasks and services, nothing else. Which sprite asks is known by
// the socket that it came through, not by anything it says.
type Inside struct {
	path   string
	server *http.Server
	serve  sync.WaitGroup
	Calls  sync.WaitGroup
	cancel context.CancelFunc

	Requests, Checkpoints *rate.Limiter // token buckets
	MostCheckpoints       int           // checkpoints, before the sprite makes no more itself
}

// listenInside opens the socket of a sprite.
func (fl *Fleet) listenInside(id, name string) (*Inside, error) {
	dir := fl.RunDir(id)
	s := &Inside{path: filepath.Join(dir, "api.sock"), Requests: rate.NewLimiter(rate.Every(callEvery), CallBurst), Checkpoints: rate.NewLimiter(rate.Every(checkpointEvery), checkpointBurst), MostCheckpoints: maxOwn}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := listenIn(dir, "api.sock")
	if err != nil {
		return nil, err
	}
	// Commands run as another user; the mode of the host's directory keeps other users of this machine out.
	if err := os.Chmod(s.path, 0o666); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(fl.Context)
	s.server = &http.Server{
		Handler: fl.Inside(s, id, name), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: insideDeadline, IdleTimeout: insideDeadline, MaxHeaderBytes: 16 << 10,
	}
	s.serve.Go(func() {
		if err := s.server.Serve(netutil.LimitListener(patient.Listener(listener), InsideConns)); !errors.Is(err, http.ErrServerClosed) {
			fl.Config.Log.Error().Err(err).Str("sprite", name).Msg("the sprite's own socket has ended")
		}
	})
	return s, nil
}

// close refuses further calls, ends those under way and waits for them.
func (s *Inside) close() error {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), insideEnd)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	s.serve.Wait()
	s.Calls.Wait()
	if gone := os.Remove(s.path); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
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
