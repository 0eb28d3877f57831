package records

import (
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	bolt "go.etcd.io/bbolt"
)

// Layer is the record of a layer. Layers form trees: one of the driver overlay shows only with its parents
// below it.
type Layer struct {
	ID         string     `json:"id"`
	Driver     layer.Kind `json:"driver"`
	Parent     string     `json:"parent,omitempty"` // the frozen layer below; "" = only the base
	Merged     string     `json:"merged,omitempty"` // a layer that shows the same as this one with fewer below it
	Image      string     `json:"image,omitempty"`  // digest of the image that it shows, or began as a copy of
	Refs       int        `json:"refs"`             // sprites, checkpoints and layers that need it
	Frozen     bool       `json:"frozen,omitempty"`
	Durable    bool       `json:"durable,omitempty"`
	Unverified bool       `json:"unverified,omitempty"` // the system went down before it was durable
	Damaged    string     `json:"damaged,omitempty"`    // how it differs from the frozen state
	Plain      bool       `json:"plain,omitempty"`      // a folder of trees/, as earlier versions made them
	Digest     string     `json:"digest,omitempty"`
	Extents    bool       `json:"extents,omitempty"` // Digest was taken without holes; those of earlier versions were not
	Entries    int64      `json:"entries,omitempty"`
	Bytes      int64      `json:"bytes,omitempty"`
}

// layersBelow lists the layers that l keeps.
func (l Layer) layersBelow() []string {
	var ids []string
	for _, id := range []string{l.Parent, l.Merged} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// Top is the layer to stack on in the place of l.
func (l Layer) Top() string {
	if l.Merged != "" {
		return l.Merged
	}
	return l.ID
}

var ErrNoLayer = errors.New("the record of a layer is missing")

func getLayer(tx *bolt.Tx, id string) (Layer, error) {
	return getRecord[Layer](openTable(tx, bucketLayers), id, "layer", fmt.Errorf("layer %s: %w", id, ErrNoLayer))
}

func putLayer(tx *bolt.Tx, l Layer) error {
	return openTable(tx, bucketLayers).putJSON([]byte(l.ID), l)
}

func changeLayer(tx *bolt.Tx, id string, change func(*Layer)) error {
	l, err := getLayer(tx, id)
	if err != nil {
		return err
	}
	change(&l)
	return putLayer(tx, l)
}

// addLayer stores a new layer, which nothing refers to yet, and holds the layers that it needs.
func addLayer(tx *bolt.Tx, l Layer) error {
	for _, id := range l.layersBelow() {
		if err := holdLayer(tx, id); err != nil {
			return err
		}
	}
	return putLayer(tx, l)
}

// freezeLayer marks a layer to which nothing is written any more. If the one below has been merged, it is stacked on the result from
// then on: no box that writes to it is left. Layers that only its former parent needed are garbage.
func freezeLayer(tx *bolt.Tx, id string, mounted func(string) bool) (garbage []Layer, err error) {
	l, err := getLayer(tx, id)
	if err != nil {
		return nil, err
	}
	l.Frozen, l.Durable = true, false
	if l.Parent == "" {
		return nil, putLayer(tx, l)
	}
	below, err := getLayer(tx, l.Parent)
	if err != nil {
		return nil, err
	}
	if below.Merged == "" {
		return nil, putLayer(tx, l)
	}
	l.Parent = below.Merged
	if err := errors.Join(putLayer(tx, l), holdLayer(tx, below.Merged)); err != nil {
		return nil, err
	}
	return releaseLayer(tx, below.ID, mounted)
}

func holdLayer(tx *bolt.Tx, id string) error {
	return changeLayer(tx, id, func(l *Layer) { l.Refs++ })
}

// releaseLayer takes a reference away. A layer without references that no running box has mounted is forgotten and
// returned as garbage, the layers that only it needed included.
func releaseLayer(tx *bolt.Tx, id string, mounted func(string) bool) (garbage []Layer, err error) {
	l, err := getLayer(tx, id)
	if err != nil {
		return nil, err
	}
	l.Refs--
	if l.Refs > 0 || mounted(id) {
		return nil, putLayer(tx, l)
	}
	return forgetLayer(tx, l, mounted)
}

func releaseLayers(tx *bolt.Tx, ids []string, mounted func(string) bool) (garbage []Layer, err error) {
	for _, id := range ids {
		more, err := releaseLayer(tx, id, mounted)
		if errors.Is(err, ErrNoLayer) {
			continue // lost already; its users are degraded, and may go
		}
		if err != nil {
			return nil, err
		}
		garbage = append(garbage, more...)
	}
	return garbage, nil
}

func forgetLayer(tx *bolt.Tx, l Layer, mounted func(string) bool) ([]Layer, error) {
	if err := tx.Bucket(bucketLayers).Delete([]byte(l.ID)); err != nil {
		return nil, err
	}
	garbage := []Layer{l}
	for _, id := range l.layersBelow() {
		more, err := releaseLayer(tx, id, mounted)
		if err != nil {
			return nil, err
		}
		garbage = append(garbage, more...)
	}
	return garbage, nil
}

func (s *Store) Layer(id string) (l Layer, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		l, err = getLayer(tx, id)
		return err
	})
	return l, err
}

// TopOf is the layer to stack on in the place of a frozen one; "" stands for the base.
func (s *Store) TopOf(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	l, err := s.Layer(id)
	return l.Top(), err
}

// Chain returns a layer and those below it, topmost first.
func (s *Store) Chain(id string) (chain []Layer, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		chain = nil
		for id != "" {
			l, err := getLayer(tx, id)
			if err != nil {
				return err
			}
			chain = append(chain, l)
			id = l.Parent
		}
		return nil
	})
	return chain, err
}

// ForgetUnused forgets those of the given layers that nothing refers to.
func (s *Store) ForgetUnused(ids []string, mounted func(string) bool) (garbage []Layer, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		garbage = nil
		for _, id := range ids {
			l, err := getLayer(tx, id)
			if errors.Is(err, ErrNoLayer) || err == nil && (l.Refs > 0 || mounted(id)) {
				continue
			}
			if err != nil {
				return err
			}
			more, err := forgetLayer(tx, l, mounted)
			if err != nil {
				return err
			}
			garbage = append(garbage, more...)
		}
		return nil
	})
	return garbage, err
}

// UpdateLayers changes the records of those of the given layers that still exist.
func (s *Store) UpdateLayers(ids []string, change func(*Layer)) error {
	return s.update(func(tx *bolt.Tx) error {
		for _, id := range ids {
			if err := changeLayer(tx, id, change); err != nil && !errors.Is(err, ErrNoLayer) {
				return err
			}
		}
		return nil
	})
}

// RecountLayers is done once when the host starts: it gives trees of earlier versions their records, counts references
// again, and forgets layers without references. booted says that the system went down since layers were last made, so that
// those that were not durable may be torn. It returns the remaining layers, by id.
func (s *Store) RecountLayers(boot string) (layers map[string]Layer, sprites map[string]bool, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		layers, sprites = map[string]Layer{}, map[string]bool{}
		known, err := listRecords[Layer](openTable(tx, bucketLayers), "layer")
		if err != nil {
			return err
		}
		for _, l := range known {
			layers[l.ID] = l
		}
		refs := map[string]int{}
		use := func(id string, frozen bool) {
			if _, known := layers[id]; !known {
				layers[id] = Layer{ID: id, Driver: layer.CAS, Plain: true, Frozen: frozen, Durable: true}
			}
			refs[id]++
		}
		recs, err := listRecords[Sprite](openTable(tx, bucketSprites), "sprite")
		if err != nil {
			return err
		}
		for _, rec := range recs {
			sprites[rec.ID] = true
			use(rec.Tree, false)
			points, err := listCheckpoints(tx, rec.ID)
			if err != nil {
				return err
			}
			for _, p := range points {
				use(p.Tree, true)
			}
		}
		meta := openTable(tx, bucketMeta)
		before, err := meta.Get(keyBoot)
		rebooted := err != nil || string(before) != boot // a damaged one is written again
		if err := meta.Put(keyBoot, []byte(boot)); err != nil {
			return err
		}
		return s.recountLayers(tx, layers, refs, rebooted)
	})
	return layers, sprites, err
}

func (s *Store) recountLayers(tx *bolt.Tx, layers map[string]Layer, refs map[string]int, rebooted bool) error {
	for id, l := range layers { // the sources of a torn one are still there
		if m, ok := layers[l.Merged]; ok && (m.Unverified || rebooted && !m.Durable) {
			l.Merged = ""
			layers[id] = l
		}
	}
	// From the layers of sprites and checkpoints downwards.
	used := map[string]bool{}
	var walk func(id string)
	walk = func(id string) {
		if used[id] {
			return
		}
		used[id] = true
		for _, below := range layers[id].layersBelow() {
			refs[below]++
			walk(below)
		}
	}
	for id := range refs {
		if _, known := layers[id]; known && !used[id] {
			walk(id)
		}
	}
	for id, l := range layers {
		if !used[id] {
			delete(layers, id)
			if err := tx.Bucket(bucketLayers).Delete([]byte(id)); err != nil {
				return err
			}
			continue
		}
		l.Refs = refs[id]
		l.Unverified = l.Unverified || rebooted && l.Frozen && !l.Durable
		layers[id] = l
		if err := putLayer(tx, l); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) SetMerged(id string, merged Layer) error {
	return s.update(func(tx *bolt.Tx) error {
		if err := addLayer(tx, merged); err != nil {
			return err
		}
		if err := changeLayer(tx, id, func(l *Layer) { l.Merged = merged.ID }); err != nil {
			return err
		}
		return holdLayer(tx, merged.ID)
	})
}
