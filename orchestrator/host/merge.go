package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Depth of a sprite's stack of layers, which costs each lookup of a name that is not there. Beyond mergeDepth the layers
// are merged in the background, at maxDepth while the caller waits.
const (
	mergeDepth = 16
	maxDepth   = 64
)

// merger keeps chains of layers short.
type merger struct {
	*core
	layers  *layerStore
	settler *settler
	merging boltfile.Lock // held while layers are merged
}

// shallow returns a frozen layer that can be stacked upon, merged with those below it if they have become too many for the
// background to keep up.
func (m *merger) shallow(ctx context.Context, l layerRecord) (layerRecord, error) {
	chain, err := m.store.chain(l.ID)
	if errors.Is(err, errNoLayer) {
		return l, nil // a copy that host.db is still to learn of; it stands on a merged layer as it is
	}
	if err != nil || l.Merged != "" || !l.Frozen || len(chain) < maxDepth {
		return l, err
	}
	if err := m.merge(ctx, l.ID); err != nil {
		return l, err
	}
	return m.store.layer(l.ID)
}

// mergeLater merges the layers that end in a frozen one, should they have become many. What runs on them is not touched:
// who stacks on that layer from then on stands on the merged one instead.
func (m *merger) mergeLater(id string) {
	chain, err := m.store.chain(id)
	if err != nil || len(chain) <= mergeDepth || chain[0].Driver != layer.Overlay {
		return
	}
	m.chores.Go(func() {
		if err := m.merge(m.ctx, id); err != nil && m.ctx.Err() == nil {
			m.cfg.Log.Warn().Err(err).Str("layer", id).Msg("merge layers")
		}
	})
}

// merge makes one layer of those that end in id, the lowest left out: it holds what was there first, which is much, and
// seldom changes.
func (m *merger) merge(ctx context.Context, id string) error {
	m.merging.Lock()
	defer m.merging.Unlock()
	chain, err := m.store.chain(id)
	if err != nil {
		return err
	}
	if len(chain) <= mergeDepth || chain[0].Merged != "" {
		return nil
	}
	ids := m.layers.pin(chain)
	defer m.layers.unpin(ids)
	d, err := m.layers.open(chain[0])
	if err != nil {
		return err
	}
	shown, err := m.layers.stack(id)
	if err != nil {
		return err
	}
	var dirs []string
	for _, l := range chain[:len(chain)-1] {
		dirs = append(dirs, m.layers.dataDir(l))
	}
	merged, err := m.layers.build(d, chain[len(chain)-1].ID, func(dir string) error {
		uid, gid := m.layers.confiner.rootOwner()
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
	if err := m.store.setMerged(id, merged); err != nil {
		m.layers.abandon(merged)
		return fmt.Errorf("merge layers: %w", err)
	}
	m.settler.settleLater(merged.ID)
	return nil
}

// onTop makes the layer of a sprite that goes on from a frozen one: an empty one on top of it, or a copy.
func (m *merger) onTop(ctx context.Context, of layerRecord) (layerRecord, error) {
	d, err := m.layers.open(of)
	if err != nil {
		return layerRecord{}, err
	}
	stacks, err := m.layers.stacks(ctx, d, of)
	if err != nil {
		return layerRecord{}, err
	}
	var l layerRecord
	if stacks {
		if of, err = m.shallow(ctx, of); err != nil {
			return layerRecord{}, err
		}
		l, err = m.layers.empty(d, of.top())
	} else {
		var parent string
		if parent, err = m.store.standOn(of.Parent); err == nil {
			l, err = m.layers.build(d, parent, func(dir string) error { return m.layers.clone(ctx, d, of, dir) })
		}
	}
	l.Image = of.Image
	return l, err
}

func newMerger(c *core, layers *layerStore, settler *settler) *merger {
	return &merger{core: c, layers: layers, settler: settler}
}
