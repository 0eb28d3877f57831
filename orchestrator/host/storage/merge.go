package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Depth of a sprite's stack of layers, which costs each lookup of a name that is not there. Beyond MergeDepth the layers
// are merged in the background, at maxDepth while the caller waits.
const (
	MergeDepth = 16
	maxDepth   = 64
)

// Merger keeps chains of layers short.
type Merger struct {
	*core.Core
	layers  *Store
	settler *Settler
	merging boltfile.Lock // held while layers are merged
}

// Shallow returns a frozen layer that can be stacked upon, merged with those below it if they have become too many for the
// background to keep up.
func (m *Merger) Shallow(ctx context.Context, l records.Layer) (records.Layer, error) {
	chain, err := m.Store.Chain(l.ID)
	if errors.Is(err, records.ErrNoLayer) {
		return l, nil // a copy that host.db is still to learn of; it stands on a merged layer as it is
	}
	if err != nil || l.Merged != "" || !l.Frozen || len(chain) < maxDepth {
		return l, err
	}
	if err := m.Merge(ctx, l.ID); err != nil {
		return l, err
	}
	return m.Store.Layer(l.ID)
}

// MergeLater merges the layers that end in a frozen one, should they have become many. Sprites that run on them are not affected:
// new layers are stacked on the merged one instead.
func (m *Merger) MergeLater(id string) {
	chain, err := m.Store.Chain(id)
	if err != nil || len(chain) <= MergeDepth || chain[0].Driver != layer.Overlay {
		return
	}
	m.Chores.Go(func() {
		if err := m.Merge(m.Context, id); err != nil && m.Context.Err() == nil {
			m.Config.Log.Warn().Err(err).Str("layer", id).Msg("merge layers")
		}
	})
}

// Merge makes one layer of those that end in id, the lowest left out: it holds the first files, which are many, and
// seldom changes.
func (m *Merger) Merge(ctx context.Context, id string) error {
	m.merging.Lock()
	defer m.merging.Unlock()
	chain, err := m.Store.Chain(id)
	if err != nil {
		return err
	}
	if len(chain) <= MergeDepth || chain[0].Merged != "" {
		return nil
	}
	ids := m.layers.Pin(chain)
	defer m.layers.Unpin(ids)
	d, err := m.layers.Open(chain[0])
	if err != nil {
		return err
	}
	shown, err := m.layers.Folders(id)
	if err != nil {
		return err
	}
	var dirs []string
	for _, l := range chain[:len(chain)-1] {
		dirs = append(dirs, m.layers.DataDir(l))
	}
	merged, err := m.layers.Build(d, chain[len(chain)-1].ID, func(dir string) error {
		uid, gid := m.layers.confiner.RootOwner()
		if err := d.Make(dir, uid, gid); err != nil {
			return err
		}
		if err := errors.Join(tree.Merge(ctx, layer.Data(dir), dirs...), d.Freeze(dir)); err != nil {
			return err
		}
		// Errors in a merged layer would be found long after its sources are gone.
		return tree.Same(ctx, shown, append([]string{layer.Data(dir)}, shown[len(dirs):]...))
	})
	if err != nil {
		return fmt.Errorf("merge layers: %w", err)
	}
	merged.Frozen, merged.Image = true, chain[0].Image
	if err := m.Store.SetMerged(id, merged); err != nil {
		m.layers.Abandon(merged)
		return fmt.Errorf("merge layers: %w", err)
	}
	m.settler.SettleLater(merged.ID)
	return nil
}

// Continue makes the layer of a sprite that goes on from a frozen one: an empty one on top of it, or a copy.
func (m *Merger) Continue(ctx context.Context, of records.Layer) (records.Layer, error) {
	d, err := m.layers.Open(of)
	if err != nil {
		return records.Layer{}, err
	}
	stacks, err := m.layers.ShouldStack(ctx, d, of)
	if err != nil {
		return records.Layer{}, err
	}
	var l records.Layer
	if stacks {
		if of, err = m.Shallow(ctx, of); err != nil {
			return records.Layer{}, err
		}
		l, err = m.layers.takeEmpty(d, of.Top())
	} else {
		var parent string
		if parent, err = m.Store.TopOf(of.Parent); err == nil {
			l, err = m.layers.Build(d, parent, func(dir string) error { return m.layers.Clone(ctx, d, of, dir) })
		}
	}
	l.Image = of.Image
	return l, err
}

func NewMerger(c *core.Core, layers *Store, settler *Settler) *Merger {
	return &Merger{Core: c, layers: layers, settler: settler}
}
