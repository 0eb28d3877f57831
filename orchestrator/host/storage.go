package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/durable"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// layerDir is the folder of a layer.
func (h *Host) layerDir(id string) string { return filepath.Join(h.cfg.Dir, "layers", id) }

// dataDir is the folder that holds the files of a layer.
func (h *Host) dataDir(l layerRecord) string {
	if l.Plain {
		return filepath.Join(h.cfg.Dir, "trees", l.ID)
	}
	return layer.Data(h.layerDir(l.ID))
}

// treeDir is the files of a layer by its name alone. They are complete unless its driver is overlay.
func (h *Host) treeDir(id string) string {
	if plain := filepath.Join(h.cfg.Dir, "trees", id); exists(plain) {
		return plain
	}
	return layer.Data(h.layerDir(id))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// build has fill make a layer in tmp/, then moves it to its place. The folders' names are durable after it; what is in
// them is not, see settle. Nothing stays behind after an error.
func (h *Host) build(d layer.Driver, parent string, fill func(dir string) error) (layerRecord, error) {
	return h.buildIn(d, parent, fill, h.step)
}

func (h *Host) buildIn(d layer.Driver, parent string, fill func(dir string) error, step func(string)) (l layerRecord, err error) {
	l = layerRecord{ID: ulid.Make().String(), Driver: d.Kind(), Parent: parent}
	staged, final := filepath.Join(h.tmpDir(), l.ID), h.layerDir(l.ID)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove(staged), d.Remove(final))
		}
	}()
	if err := fill(staged); err != nil {
		return l, err
	}
	step("filled")
	if err := durable.SyncDir(staged); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	if err := os.Rename(staged, final); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(final)); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	step("placed")
	return l, nil
}

// newRoot makes the layer of a new sprite: with overlay an empty one on the base, else a tree with the folders that a
// root needs, and with all that is in the image, unless that is "".
func (h *Host) newRoot(ctx context.Context, image string) (layerRecord, error) {
	d, err := h.driver()
	if err != nil {
		return layerRecord{}, err
	}
	if d.Stacks() {
		l, err := h.empty(d, "")
		l.Image = image
		return l, err
	}
	l, err := h.build(d, "", func(dir string) error {
		uid, gid := h.rootOwner()
		if err := d.Make(dir, uid, gid); err != nil {
			return err
		}
		if image != "" {
			if err := tree.Copy(ctx, h.images.Dir(image), layer.Data(dir)); err != nil {
				return err
			}
		}
		uid, gid = h.owner()
		return sandbox.Furnish(layer.Data(dir), uid, gid)
	})
	l.Image = image
	return l, err
}

// onTop makes the layer of a sprite that goes on from a frozen one: an empty one on top of it, or a copy.
func (h *Host) onTop(ctx context.Context, of layerRecord) (layerRecord, error) {
	d, err := h.open(of)
	if err != nil {
		return layerRecord{}, err
	}
	stacks, err := h.stacks(ctx, d, of)
	if err != nil {
		return layerRecord{}, err
	}
	var l layerRecord
	if stacks {
		if of, err = h.shallow(ctx, of); err != nil {
			return layerRecord{}, err
		}
		l, err = h.empty(d, of.top())
	} else {
		var parent string
		if parent, err = h.store.standOn(of.Parent); err == nil {
			l, err = h.build(d, parent, func(dir string) error { return h.clone(ctx, d, of, dir) })
		}
	}
	l.Image = of.Image
	return l, err
}

// What is copied rather than stacked upon where overlays cannot rename the folders of layers below them.
const (
	copiedEntries = 10_000
	copiedBytes   = 128 << 20
)

// stacks reports whether a sprite goes on from a layer on top of it. Overlays of an ordinary user could then rename none of
// its folders, which programs seldom expect; so what is small is copied there, and the sprite's folders stay in the layer
// that it writes to.
func (h *Host) stacks(ctx context.Context, d layer.Driver, l layerRecord) (bool, error) {
	if !d.Stacks() || os.Getuid() == 0 {
		return d.Stacks(), nil
	}
	small, err := tree.Within(ctx, h.dataDir(l), copiedEntries, copiedBytes)
	return !small, err
}

// clone copies a layer as its driver does.
func (h *Host) clone(ctx context.Context, d layer.Driver, of layerRecord, dir string) error {
	if !of.Plain {
		return d.Clone(ctx, h.layerDir(of.ID), dir)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return tree.Copy(ctx, h.dataDir(of), layer.Data(dir))
}

// discard moves layers that nothing refers to any more to the trash. What it cannot move now goes at the next start.
func (h *Host) discard(garbage ...layerRecord) {
	for _, l := range garbage {
		h.digests.stop(l.ID)
		dir := h.layerDir(l.ID)
		if l.Plain {
			dir = h.dataDir(l)
		}
		if err := h.trash(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			h.cfg.Log.Warn().Err(err).Str("layer", l.ID).Msg("move layer to trash")
		}
	}
	h.step("trashed")
}

// abandon discards layers whose commit failed, unless the commit happened after all.
func (h *Host) abandon(made ...layerRecord) {
	for _, l := range made {
		if _, err := h.store.layer(l.ID); errors.Is(err, errNoLayer) {
			h.discard(l)
		}
	}
}

// degraded says why the files that end in a layer cannot be used, "" when they can.
func (h *Host) degraded(id string) string {
	chain, err := h.store.chain(id)
	if err != nil {
		return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
	}
	for _, l := range chain {
		if l.Damaged != "" {
			return fmt.Sprintf("its files are not what they were (%s); restore a checkpoint or delete the sprite", l.Damaged)
		}
		if _, err := os.Lstat(h.dataDir(l)); err != nil {
			return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
		}
		if l.Driver == layer.Overlay && l.Image != "" && !exists(h.images.Dir(l.Image)) {
			return fmt.Sprintf("the image %s that it lies on is missing; import it again, or delete the sprite", l.Image)
		}
	}
	return ""
}
