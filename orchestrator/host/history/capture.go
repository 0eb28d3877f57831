package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// captureFiles freezes the present files of a sprite that the caller is alone with. Where no process is left, an empty layer
// goes on top, for which the sandbox must end; but as long as little has changed, copying that is quicker than ending one
// sandbox and starting another. Else the layer is copied, or a snapshot taken, while processes are held as far as the driver
// needs that.
func (hs *API) captureFiles(ctx context.Context, s *fleet.Sprite, rec records.Sprite) (records.Captured, error) {
	now, err := hs.Store.Layer(rec.Tree)
	if err != nil {
		return records.Captured{}, err
	}
	d, err := hs.Layers.Open(now)
	if err != nil {
		return records.Captured{}, err
	}
	quiet := d.Stacks() && s.Quiet()
	if quiet {
		little, err := hs.littleChanged(ctx, s, now)
		if err != nil {
			return records.Captured{}, err
		}
		if little {
			return hs.captureCopy(ctx, d, now)
		}
	}
	stacks, err := hs.Layers.ShouldStack(ctx, d, now)
	switch {
	case err != nil:
		return records.Captured{}, err
	case stacks && quiet:
		return hs.captureBelow(ctx, s, d, now)
	}
	ended := false
	if quiet { // so that the next box shows the checkpoint
		ended = s.Present() != nil
		if err := s.Pause(); err != nil {
			return records.Captured{}, err
		}
	}
	thaw := func() error { return nil }
	if box := s.Present(); box != nil && !d.LiveSafe() {
		hs.Step("holding")
		if thaw, err = freezeBox(ctx, box); err != nil {
			return records.Captured{}, fmt.Errorf("hold the sprite's processes: %w", err)
		}
	}
	p, err := hs.captureCopy(ctx, d, now)
	if thawErr := thaw(); err == nil && thawErr != nil { // it may hold the files of more than one moment
		hs.Layers.Discard(p.Layer)
		err = thawErr
	}
	p.Ended = ended
	return p, err
}

// littleChanged reports whether the layer of a sprite in which nothing runs is quickly copied, and its sandbox may go on:
// it then has to be one that is shown new checkpoints while it runs.
func (hs *API) littleChanged(ctx context.Context, s *fleet.Sprite, now records.Layer) (bool, error) {
	if box := s.Present(); box == nil || box.Level() != spec.LevelRoot {
		return false, nil
	}
	return tree.Within(ctx, hs.Layers.DataDir(now), quicklyEntries, quicklyBytes)
}

// captureBelow ends the sandbox of a sprite in which nothing runs, and has it go on in an empty layer.
func (hs *API) captureBelow(ctx context.Context, s *fleet.Sprite, d layer.Driver, now records.Layer) (records.Captured, error) {
	if err := hs.shallowBelow(ctx, now); err != nil {
		return records.Captured{}, err
	}
	// First, because this step may fail: on a full disk the sprite then goes on unchanged.
	next, err := hs.Merger.Continue(ctx, now)
	if err != nil {
		return records.Captured{}, err
	}
	ended := s.Present() != nil
	err = s.Pause()
	if err == nil {
		err = hs.completeLayer(ctx, d, now, hs.Layers.LayerDir(now.ID))
	}
	if err != nil {
		hs.Layers.Discard(next)
		return records.Captured{}, err
	}
	hs.Step("ended")
	return records.Captured{Layer: now, Made: []records.Layer{next}, Tree: next.ID, Ended: ended}, nil
}

// captureCopy copies a layer to which nothing is written, or takes a snapshot of it. The sprite goes on where it is.
func (hs *API) captureCopy(ctx context.Context, d layer.Driver, now records.Layer) (records.Captured, error) {
	parent, err := hs.Store.TopOf(now.Parent)
	if err != nil {
		return records.Captured{}, err
	}
	copied, err := hs.Layers.Build(d, parent, func(dir string) error {
		if err := hs.Layers.Clone(ctx, d, now, dir); err != nil {
			return err
		}
		return hs.completeLayer(ctx, d, now, dir)
	})
	copied.Frozen, copied.Image = true, now.Image
	return records.Captured{Layer: copied, Made: []records.Layer{copied}}, err
}

// freezeBox freezes the box. One that ends by itself at this moment holds nothing back: none of its processes is left.
func freezeBox(ctx context.Context, box *sandbox.Box) (thaw func() error, err error) {
	thaw, err = box.Freeze(ctx)
	if errors.Is(err, spec.ErrDied) {
		return func() error { return nil }, box.Stop() // which waits until it is gone
	}
	return thaw, err
}

// completeLayer has a layer that is about to be frozen, or a copy of it, hold all that shows in it now.
func (hs *API) completeLayer(ctx context.Context, d layer.Driver, of records.Layer, dir string) error {
	if of.Plain {
		return nil
	}
	shown, err := hs.Layers.Folders(of.ID)
	if err != nil {
		return err
	}
	return d.Complete(ctx, dir, hs.Layers.LayerDir(of.ID), shown[1:])
}

// shallowBelow is Shallow for the parent of a live layer.
func (hs *API) shallowBelow(ctx context.Context, l records.Layer) error {
	if l.Parent == "" {
		return nil
	}
	below, err := hs.Store.Layer(l.Parent)
	if err == nil {
		_, err = hs.Merger.Shallow(ctx, below)
	}
	return err
}
