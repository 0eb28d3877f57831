package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Settler makes frozen layers durable, and verifies later that they have not changed.
type Settler struct {
	*core.Core
	layers   *Store
	settling boltfile.Lock // held while layers are made durable

	mu        boltfile.Lock // guards unsettled
	unsettled []string      // layers that were frozen and may not be on the disk yet
}

// Settle makes the layers durable that were frozen until now. Their digests are taken later, by which Verify recognizes
// changes.
func (s *Settler) Settle(ctx context.Context) error {
	s.settling.Lock()
	defer s.settling.Unlock()
	s.mu.Lock()
	torn := s.unsettled
	s.unsettled = nil
	s.mu.Unlock()
	if len(torn) == 0 {
		return nil
	}
	if err := s.dropWork(torn); err != nil {
		s.Config.Log.Warn().Err(err).Msg("tidy up frozen layers") // they only take more room
	}
	err := tree.Sync(filepath.Join(s.Config.Dir, "layers"))
	if err == nil {
		err = s.Store.UpdateLayers(torn, func(l *records.Layer) { l.Durable = true })
	}
	if err != nil {
		s.mu.Lock()
		s.unsettled = append(s.unsettled, torn...)
		s.mu.Unlock()
		return fmt.Errorf("make checkpoints durable: %w", err)
	}
	return nil
}

// dropWork removes the work folders of frozen layers, which only a writer needs.
func (s *Settler) dropWork(ids []string) error {
	for _, id := range ids {
		l, err := s.Store.Layer(id)
		if errors.Is(err, records.ErrNoLayer) || l.Plain {
			continue
		}
		d, openErr := layer.Open(l.Driver)
		if err = errors.Join(err, openErr); err == nil && l.Frozen {
			err = d.Freeze(s.layers.LayerDir(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SettleLater has a layer that was just frozen made durable in the background, and its digest taken.
func (s *Settler) SettleLater(ids ...string) {
	s.mu.Lock()
	s.unsettled = append(s.unsettled, ids...)
	s.mu.Unlock()
	s.Chores.Go(func() {
		if err := s.Settle(s.Context); err != nil {
			s.WarnUnlessClosing(err)
			return
		}
		for _, id := range ids {
			s.Chores.Go(func() { s.WarnUnlessClosing(s.takeDigestLater(id)) })
		}
	})
}

// Verify reads the files of a frozen layer again, and those below it, and records differences from their digests.
func (s *Settler) Verify(ctx context.Context, id string) (damaged string, err error) {
	chain, err := s.Store.Chain(id)
	if err != nil {
		return "", err
	}
	for _, l := range chain {
		if why, err := s.VerifyLayer(ctx, l); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

func (s *Settler) VerifyLayer(ctx context.Context, l records.Layer) (damaged string, err error) {
	if l.Damaged != "" {
		return l.Damaged, nil
	}
	if l.Digest == "" {
		return "", s.takeDigest(ctx, l.ID)
	}
	sum, err := s.digestOf(ctx, l)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch {
	case err != nil:
		damaged = err.Error()
	case sum.Digest != l.Digest:
		damaged = fmt.Sprintf("layer %s has digest %.12s, not %.12s", l.ID, sum.Digest, l.Digest)
	case !l.Unverified:
		return "", nil
	}
	return damaged, s.Store.UpdateLayers([]string{l.ID}, func(l *records.Layer) { l.Damaged, l.Unverified = damaged, false })
}

func NewSettler(c *core.Core, layers *Store) *Settler { return &Settler{Core: c, layers: layers} }

// takeDigestLater is takeDigest as background work. It succeeds for a layer that is gone, or too large.
func (s *Settler) takeDigestLater(id string) error {
	err := s.layers.digests.runInBackground(s.Context, id, func(ctx context.Context) error { return s.takeDigest(ctx, id) })
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
