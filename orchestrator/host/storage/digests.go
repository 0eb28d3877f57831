package storage

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"golang.org/x/sys/unix"
)

// Digests of new layers are taken in the background, one after another. A sprite can make a layer that takes for ever: one
// that takes long lets the next one begin, few of those go on side by side, none for longer than digestLimit, and none once
// its layer is removed. A layer without a digest is as good as any; verifying it takes the digest then.
const (
	digestTurn  = 5 * time.Second
	digestLimit = 10 * time.Minute
	slowDigests = 3
)

// digests are those that are being taken.
type digests struct {
	patience, limit time.Duration // digestTurn and digestLimit

	turn chan struct{} // holds a token while one has its turn
	slow chan struct{} // a token for each that is longer than its turn

	mu      boltfile.Lock // guards running
	running map[string]context.CancelFunc
}

func newDigests(patience, limit time.Duration) *digests {
	return &digests{patience: patience, limit: limit, turn: make(chan struct{}, 1), slow: make(chan struct{}, slowDigests), running: map[string]context.CancelFunc{}}
}

var errSlow = errors.New("it takes too long")

// runInBackground calls take, with a context that ends when the layer is removed or the time is up; a call that takes longer than
// digestTurn lets others begin. It fails with errSlow when there are too many of those, or after digestLimit.
func (d *digests) runInBackground(ctx context.Context, id string, take func(context.Context) error) error {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	limited, stop := context.WithTimeoutCause(ctx, d.limit, errSlow)
	defer stop()
	running, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	d.mu.Lock()
	d.running[id] = func() { cancel(os.ErrNotExist) }
	d.mu.Unlock()
	done := make(chan error, 1)
	go func() { // awaited below
		afterOthers()
		done <- take(running)
	}()
	var err error
	select {
	case err = <-done:
		<-d.turn
	case <-time.After(d.patience):
		select {
		case d.slow <- struct{}{}:
			<-d.turn
			err = <-done
			<-d.slow
		default:
			cancel(errSlow)
			err = <-done
			<-d.turn
		}
	}
	d.mu.Lock()
	delete(d.running, id)
	d.mu.Unlock()
	if err != nil && running.Err() != nil {
		return context.Cause(running)
	}
	return err
}

// stopDigest ends the digest of a layer that is removed.
func (d *digests) stopDigest(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.running[id]; cancel != nil {
		cancel()
	}
}

// afterOthers has the rest of the calling goroutine run when nothing else wants the processor, where the system knows
// priorities of threads: a digest of a large tree takes seconds, and a client may be waiting for a command. The
// goroutine keeps its thread, and takes it along when it ends.
func afterOthers() {
	if runtime.GOOS != "linux" {
		return
	}
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19) // it is a courtesy
}
