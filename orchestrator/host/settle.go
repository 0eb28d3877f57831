package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// settle makes durable what was frozen until now, then takes its digest, so that later it can be told whether it is still
// what it was.
func (h *Host) settle(ctx context.Context) error {
	h.settling.Lock()
	defer h.settling.Unlock()
	h.mu.Lock()
	torn := h.unsettled
	h.unsettled = nil
	h.mu.Unlock()
	if len(torn) == 0 {
		return nil
	}
	if err := h.dropWork(torn); err != nil {
		h.cfg.Log.Warn().Err(err).Msg("tidy up frozen layers") // they only take more room
	}
	err := tree.Sync(filepath.Join(h.cfg.Dir, "layers"))
	if err == nil {
		err = h.store.updateLayers(torn, func(l *layerRecord) { l.Durable = true })
	}
	if err != nil {
		h.mu.Lock()
		h.unsettled = append(h.unsettled, torn...)
		h.mu.Unlock()
		return fmt.Errorf("make checkpoints durable: %w", err)
	}
	return nil
}

// dropWork removes what frozen layers needed only to be written to.
func (h *Host) dropWork(ids []string) error {
	for _, id := range ids {
		l, err := h.store.layer(id)
		if errors.Is(err, errNoLayer) || l.Plain {
			continue
		}
		d, openErr := layer.Open(l.Driver)
		if err = errors.Join(err, openErr); err == nil && l.Frozen {
			err = d.Freeze(h.layerDir(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settleLater has a layer that was just frozen made durable in the background, and its digest taken.
func (h *Host) settleLater(ids ...string) {
	h.mu.Lock()
	h.unsettled = append(h.unsettled, ids...)
	h.mu.Unlock()
	h.chores.Go(func() {
		if err := h.settle(h.ctx); err != nil {
			h.warnUnlessClosed(err)
			return
		}
		for _, id := range ids {
			h.chores.Go(func() { h.warnUnlessClosed(h.takeDigestLater(id)) })
		}
	})
}

func (h *Host) warnUnlessClosed(err error) {
	if err != nil && h.ctx.Err() == nil {
		h.cfg.Log.Warn().Err(err).Msg("look after a new checkpoint")
	}
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
func (h *Host) verify(ctx context.Context, id string) (damaged string, err error) {
	chain, err := h.store.chain(id)
	if err != nil {
		return "", err
	}
	for _, l := range chain {
		if why, err := h.verifyLayer(ctx, l); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

func (h *Host) verifyLayer(ctx context.Context, l layerRecord) (damaged string, err error) {
	if l.Damaged != "" {
		return l.Damaged, nil
	}
	if l.Digest == "" {
		return "", h.takeDigest(ctx, l.ID)
	}
	sum, err := h.digestOf(ctx, l)
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
	return damaged, h.store.updateLayers([]string{l.ID}, func(l *layerRecord) { l.Damaged, l.Unverified = damaged, false })
}
