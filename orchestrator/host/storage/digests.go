package storage

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/tree"
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

// background calls take, with a context that ends when the layer is removed or the time is up; a call that takes longer than
// digestTurn lets others begin. It fails with errSlow when there are too many of those, or after digestLimit.
func (d *digests) background(ctx context.Context, id string, take func(context.Context) error) error {
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

// stop ends the digest of a layer that is removed.
func (d *digests) stop(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.running[id]; cancel != nil {
		cancel()
	}
}

// takeDigestLater is takeDigest as background work. It succeeds for a layer that is gone, or too large.
func (s *Settler) takeDigestLater(id string) error {
	err := s.layers.digests.background(s.Context, id, func(ctx context.Context) error { return s.takeDigest(ctx, id) })
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, errSlow):
		s.Config.Log.Info().Str("layer", id).Msg("a layer is too large for a digest in the background; verifying its checkpoint takes one")
		return nil
	}
	return err
}

// takeDigest reads a frozen layer, and stores its digest and size if they are not known yet.
func (s *Settler) takeDigest(ctx context.Context, id string) error {
	l, err := s.Store.Layer(id)
	if err != nil || l.Digest != "" {
		if errors.Is(err, records.ErrNoLayer) {
			return nil
		}
		return err
	}
	sum, err := tree.Digest(ctx, s.layers.DataDir(l))
	if errors.Is(err, os.ErrNotExist) {
		return nil // discarded during the read
	}
	if err != nil {
		return err
	}
	return s.Store.UpdateLayers([]string{id}, func(l *records.Layer) {
		l.Digest, l.Entries, l.Bytes, l.Extents = sum.Digest, sum.Entries, sum.Bytes, true
	})
}

// digestOf takes the digest of a layer again, in the way in which it was taken first.
func (s *Settler) digestOf(ctx context.Context, l records.Layer) (tree.Sum, error) {
	sum, err := tree.Digest(ctx, s.layers.DataDir(l))
	if err != nil || l.Extents || sum.Digest == l.Digest {
		return sum, err
	}
	return tree.DenseDigest(ctx, s.layers.DataDir(l))
}
