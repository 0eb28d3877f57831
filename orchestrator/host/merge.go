package host

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Depth of a sprite's stack of layers, which costs each lookup of a name that is not there. Beyond mergeDepth the layers
// are merged in the background, at maxDepth while the caller waits.
const (
	mergeDepth = 16
	maxDepth   = 64
)

// shallow returns a frozen layer that can be stacked upon, merged with those below it if they have become too many for the
// background to keep up.
func (h *Host) shallow(ctx context.Context, l layerRecord) (layerRecord, error) {
	chain, err := h.store.chain(l.ID)
	if errors.Is(err, errNoLayer) {
		return l, nil // a copy that host.db is still to learn of; it stands on a merged layer as it is
	}
	if err != nil || l.Merged != "" || !l.Frozen || len(chain) < maxDepth {
		return l, err
	}
	if err := h.merge(ctx, l.ID); err != nil {
		return l, err
	}
	return h.store.layer(l.ID)
}

// shallowBelow is shallow for what a live layer stands on.
func (h *Host) shallowBelow(ctx context.Context, l layerRecord) error {
	if l.Parent == "" {
		return nil
	}
	below, err := h.store.layer(l.Parent)
	if err == nil {
		_, err = h.shallow(ctx, below)
	}
	return err
}

// mergeLater merges the layers that end in a frozen one, should they have become many. What runs on them is not touched:
// who stacks on that layer from then on stands on the merged one instead.
func (h *Host) mergeLater(id string) {
	chain, err := h.store.chain(id)
	if err != nil || len(chain) <= mergeDepth || chain[0].Driver != layer.Overlay {
		return
	}
	h.chores.Go(func() {
		if err := h.merge(h.ctx, id); err != nil && h.ctx.Err() == nil {
			h.cfg.Log.Warn().Err(err).Str("layer", id).Msg("merge layers")
		}
	})
}

// merge makes one layer of those that end in id, the lowest left out: it holds what was there first, which is much, and
// seldom changes.
func (h *Host) merge(ctx context.Context, id string) error {
	h.merging.Lock()
	defer h.merging.Unlock()
	chain, err := h.store.chain(id)
	if err != nil {
		return err
	}
	if len(chain) <= mergeDepth || chain[0].Merged != "" {
		return nil
	}
	ids := h.pin(chain)
	defer h.unpin(ids)
	d, err := h.open(chain[0])
	if err != nil {
		return err
	}
	shown, err := h.stack(id)
	if err != nil {
		return err
	}
	var dirs []string
	for _, l := range chain[:len(chain)-1] {
		dirs = append(dirs, h.dataDir(l))
	}
	merged, err := h.build(d, chain[len(chain)-1].ID, func(dir string) error {
		uid, gid := h.rootOwner()
		if err := d.Make(dir, uid, gid); err != nil {
			return err
		}
		if err := errors.Join(tree.Merge(ctx, layer.Data(dir), dirs...), d.Freeze(dir)); err != nil {
			return err
		}
		// What is wrong with a merged layer would be found long after those that it stands for are gone.
		return tree.Same(ctx, shown, append([]string{layer.Data(dir)}, shown[len(dirs):]...))
	})
	if err != nil {
		return fmt.Errorf("merge layers: %w", err)
	}
	merged.Frozen, merged.Image = true, chain[0].Image
	if err := h.store.setMerged(id, merged); err != nil {
		h.abandon(merged)
		return fmt.Errorf("merge layers: %w", err)
	}
	h.settleLater(merged.ID)
	return nil
}

func (s *store) setMerged(id string, merged layerRecord) error {
	return s.update(func(tx *bolt.Tx) error {
		if err := addLayer(tx, merged); err != nil {
			return err
		}
		if err := changeLayer(tx, id, func(l *layerRecord) { l.Merged = merged.ID }); err != nil {
			return err
		}
		return holdLayer(tx, merged.ID)
	})
}
