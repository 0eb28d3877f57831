package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// settler makes frozen layers durable, and tells later whether they still are what they were.
type settler struct {
	*core
	layers   *layerStore
	settling boltfile.Lock // held while layers are made durable

	mu        boltfile.Lock // guards unsettled
	unsettled []string      // layers that were frozen and may not be on the disk yet
}

// settle makes durable what was frozen until now, then takes its digest, so that later it can be told whether it is still
// what it was.
func (s *settler) settle(ctx context.Context) error {
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
		s.cfg.Log.Warn().Err(err).Msg("tidy up frozen layers") // they only take more room
	}
	err := tree.Sync(filepath.Join(s.cfg.Dir, "layers"))
	if err == nil {
		err = s.store.updateLayers(torn, func(l *layerRecord) { l.Durable = true })
	}
	if err != nil {
		s.mu.Lock()
		s.unsettled = append(s.unsettled, torn...)
		s.mu.Unlock()
		return fmt.Errorf("make checkpoints durable: %w", err)
	}
	return nil
}

// dropWork removes what frozen layers needed only to be written to.
func (s *settler) dropWork(ids []string) error {
	for _, id := range ids {
		l, err := s.store.layer(id)
		if errors.Is(err, errNoLayer) || l.Plain {
			continue
		}
		d, openErr := layer.Open(l.Driver)
		if err = errors.Join(err, openErr); err == nil && l.Frozen {
			err = d.Freeze(s.layers.layerDir(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settleLater has a layer that was just frozen made durable in the background, and its digest taken.
func (s *settler) settleLater(ids ...string) {
	s.mu.Lock()
	s.unsettled = append(s.unsettled, ids...)
	s.mu.Unlock()
	s.chores.Go(func() {
		if err := s.settle(s.ctx); err != nil {
			s.warnUnlessClosed(err)
			return
		}
		for _, id := range ids {
			s.chores.Go(func() { s.warnUnlessClosed(s.takeDigestLater(id)) })
		}
	})
}

// afterOthers has the rest of the calling goroutine run when nothing else wants the processor, where the system knows
// priorities of threads: a digest of a large tree takes seconds, and somebody may be waiting for a command meanwhile. The
// goroutine keeps its thread, and takes it along when it ends.
func afterOthers() {
	if runtime.GOOS != "linux" {
		return
	}
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19) // it is a courtesy
}

// verify reads the files of a frozen layer again, and those below it, and records where they are not what they were.
func (s *settler) verify(ctx context.Context, id string) (damaged string, err error) {
	chain, err := s.store.chain(id)
	if err != nil {
		return "", err
	}
	for _, l := range chain {
		if why, err := s.verifyLayer(ctx, l); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

func (s *settler) verifyLayer(ctx context.Context, l layerRecord) (damaged string, err error) {
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
	return damaged, s.store.updateLayers([]string{l.ID}, func(l *layerRecord) { l.Damaged, l.Unverified = damaged, false })
}

func newSettler(c *core, layers *layerStore) *settler { return &settler{core: c, layers: layers} }
