package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// capture freezes the present files of a sprite that the caller is alone with. Where no process is left, an empty layer
// goes on top, for which the sandbox must end; but as long as little has changed, copying that is quicker than ending one
// sandbox and starting another. Else the layer is copied, or a snapshot taken, while processes are held as far as the driver
// needs that.
func (hs *historyAPI) capture(ctx context.Context, s *sprite, rec spriteRecord) (present, error) {
	now, err := hs.store.layer(rec.Tree)
	if err != nil {
		return present{}, err
	}
	d, err := hs.layers.open(now)
	if err != nil {
		return present{}, err
	}
	quiet := d.Stacks() && s.quiet()
	if quiet {
		little, err := hs.littleChanged(ctx, s, now)
		if err != nil {
			return present{}, err
		}
		if little {
			return hs.captureCopy(ctx, d, now)
		}
	}
	stacks, err := hs.layers.stacks(ctx, d, now)
	switch {
	case err != nil:
		return present{}, err
	case stacks && quiet:
		return hs.captureBelow(ctx, s, d, now)
	}
	ended := false
	if quiet { // so that the next box shows the checkpoint
		ended = s.present() != nil
		if err := s.pause(); err != nil {
			return present{}, err
		}
	}
	thaw := func() error { return nil }
	if box := s.present(); box != nil && !d.LiveSafe() {
		hs.step("holding")
		if thaw, err = hold(ctx, box); err != nil {
			return present{}, fmt.Errorf("hold the sprite's processes: %w", err)
		}
	}
	p, err := hs.captureCopy(ctx, d, now)
	if thawErr := thaw(); err == nil && thawErr != nil { // it may hold the files of more than one moment
		hs.layers.discard(p.layer)
		err = thawErr
	}
	p.ended = ended
	return p, err
}

// littleChanged reports whether the layer of a sprite in which nothing runs is quickly copied, and its sandbox may go on:
// it then has to be one that is shown new checkpoints while it runs.
func (hs *historyAPI) littleChanged(ctx context.Context, s *sprite, now layerRecord) (bool, error) {
	if box := s.present(); box == nil || box.Level() != sandbox.LevelRoot {
		return false, nil
	}
	return tree.Within(ctx, hs.layers.dataDir(now), quicklyEntries, quicklyBytes)
}

// captureBelow ends the sandbox of a sprite in which nothing runs, and has it go on in an empty layer.
func (hs *historyAPI) captureBelow(ctx context.Context, s *sprite, d layer.Driver, now layerRecord) (present, error) {
	if err := hs.shallowBelow(ctx, now); err != nil {
		return present{}, err
	}
	// First, because it is what may fail: on a full disk the sprite then goes on as it was.
	next, err := hs.merger.onTop(ctx, now)
	if err != nil {
		return present{}, err
	}
	ended := s.present() != nil
	err = s.pause()
	if err == nil {
		err = hs.complete(ctx, d, now, hs.layers.layerDir(now.ID))
	}
	if err != nil {
		hs.layers.discard(next)
		return present{}, err
	}
	hs.step("ended")
	return present{layer: now, made: []layerRecord{next}, tree: next.ID, ended: ended}, nil
}

// captureCopy copies a layer that nobody writes to, or takes a snapshot of it. The sprite goes on where it is.
func (hs *historyAPI) captureCopy(ctx context.Context, d layer.Driver, now layerRecord) (present, error) {
	parent, err := hs.store.standOn(now.Parent)
	if err != nil {
		return present{}, err
	}
	copied, err := hs.layers.build(d, parent, func(dir string) error {
		if err := hs.layers.clone(ctx, d, now, dir); err != nil {
			return err
		}
		return hs.complete(ctx, d, now, dir)
	})
	copied.Frozen, copied.Image = true, now.Image
	return present{layer: copied, made: []layerRecord{copied}}, err
}

// hold freezes the box. One that ends by itself at this moment holds nothing back: none of its processes is left.
func hold(ctx context.Context, box *sandbox.Box) (thaw func() error, err error) {
	thaw, err = box.Freeze(ctx)
	if errors.Is(err, sandbox.ErrDied) {
		return func() error { return nil }, box.Stop() // which waits until it is gone
	}
	return thaw, err
}

// complete has a layer that is about to be frozen, or a copy of it, hold all that shows in it now.
func (hs *historyAPI) complete(ctx context.Context, d layer.Driver, of layerRecord, dir string) error {
	if of.Plain {
		return nil
	}
	shown, err := hs.layers.stack(of.ID)
	if err != nil {
		return err
	}
	return d.Complete(ctx, dir, hs.layers.layerDir(of.ID), shown[1:])
}

// shallowBelow is shallow for what a live layer stands on.
func (hs *historyAPI) shallowBelow(ctx context.Context, l layerRecord) error {
	if l.Parent == "" {
		return nil
	}
	below, err := hs.store.layer(l.Parent)
	if err == nil {
		_, err = hs.merger.shallow(ctx, below)
	}
	return err
}
