package records

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Checkpoint is the record of a checkpoint.
type Checkpoint struct {
	ID         string    `json:"id"`   // "v3", or "auto-4" for one that the host made before a restore
	Tree       string    `json:"tree"` // a frozen layer
	Source     string    `json:"source,omitempty"`
	Comment    string    `json:"comment,omitempty"`
	Auto       bool      `json:"auto,omitempty"`
	CreateTime time.Time `json:"create_time"`
}

// Number returns the number of the checkpoint in its sprite. Later checkpoints have greater ones.
func (p Checkpoint) Number() uint64 { return NumberOf(p.ID) }

// NumberOf returns the number in the id of a checkpoint, 0 if it is not one.
func NumberOf(id string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(strings.TrimPrefix(id, "auto-"), "v"), 10, 64) // 0
	return n
}

// Checkpoints returns the checkpoints of a sprite in the order of their making.
func (s *Store) Checkpoints(spriteID string) (points []Checkpoint, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		points, err = listCheckpoints(tx, spriteID)
		return err
	})
	return points, err
}

func listCheckpoints(tx *bolt.Tx, spriteID string) ([]Checkpoint, error) {
	b := openTable(tx, bucketCheckpoints, spriteID)
	if b.Bucket == nil {
		return nil, ErrNoSprite
	}
	return listRecords[Checkpoint](b, "checkpoint")
}

func (s *Store) Checkpoint(spriteID, id string) (Checkpoint, error) {
	points, err := s.Checkpoints(spriteID)
	if err != nil {
		return Checkpoint{}, err
	}
	return findCheckpoint(points, id)
}

func findCheckpoint(points []Checkpoint, id string) (Checkpoint, error) {
	i := slices.IndexFunc(points, func(p Checkpoint) bool { return p.ID == id })
	if i < 0 {
		return Checkpoint{}, ErrNoCheckpoint
	}
	return points[i], nil
}

// AddCheckpoint gives p the sprite's next number and stores it with the layer that captured the present files. The
// sprite's own state descends from p from then on.
func (s *Store) AddCheckpoint(name string, p Checkpoint, now Captured, mounted func(string) bool) (_ Checkpoint, garbage []Layer, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		rec, err := getSprite(tx, name)
		if err != nil {
			return err
		}
		if garbage, err = commitPresent(tx, &rec, now, mounted); err != nil {
			return err
		}
		p.Source, p.Tree = rec.Source, now.Layer.ID
		if p, err = putCheckpoint(tx, &rec, p); err != nil {
			return err
		}
		rec.Source = p.ID
		return putSprite(tx, rec)
	})
	return p, garbage, err
}

// putCheckpoint stores a checkpoint, which holds its tree from then on.
func putCheckpoint(tx *bolt.Tx, rec *Sprite, p Checkpoint) (Checkpoint, error) {
	rec.Checkpointed++
	p.ID = fmt.Sprintf("v%d", rec.Checkpointed)
	if p.Auto {
		p.ID = fmt.Sprintf("auto-%d", rec.Checkpointed)
	}
	if err := holdLayer(tx, p.Tree); err != nil {
		return p, err
	}
	return p, openTable(tx, bucketCheckpoints, rec.ID).putJSON(encodeNumber(rec.Checkpointed), p)
}

func encodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Restore makes the new layer fresh the sprite's state, which then descends from checkpoint source. The state before
// stays as an automatic checkpoint with the comment, unless the comment is ""; of the automatic ones only the newest `keep` stay. What
// nothing needs any more is returned as garbage.
func (s *Store) Restore(name string, fresh Layer, source, comment string, now time.Time, keep int, mounted func(string) bool) (garbage []Layer, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		garbage = nil
		rec, err := getSprite(tx, name)
		if err != nil {
			return err
		}
		if comment != "" {
			auto := Checkpoint{
				Tree: rec.Tree, Source: rec.Source, Auto: true, CreateTime: now,
				Comment: comment,
			}
			if _, err := putCheckpoint(tx, &rec, auto); err != nil {
				return err
			}
			if garbage, err = freezeLayer(tx, rec.Tree, mounted); err != nil {
				return err
			}
		}
		if err := addLayer(tx, fresh); err != nil {
			return err
		}
		if err := holdLayer(tx, fresh.ID); err != nil {
			return err
		}
		old, err := pruneAutos(tx, rec.ID, keep)
		if err != nil {
			return err
		}
		more, err := releaseLayers(tx, append(old, rec.Tree), mounted)
		if err != nil {
			return err
		}
		garbage = append(garbage, more...)
		rec.Tree, rec.Source, rec.UpdatedAt = fresh.ID, source, now
		return putSprite(tx, rec)
	})
	return garbage, err
}

// pruneAutos forgets all automatic checkpoints but the newest, and returns their trees.
func pruneAutos(tx *bolt.Tx, spriteID string, keep int) (trees []string, err error) {
	points, err := listCheckpoints(tx, spriteID)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(points) {
		switch {
		case !p.Auto:
		case keep > 0:
			keep--
		default:
			trees = append(trees, p.Tree)
			if err := forgetCheckpoint(tx, spriteID, p); err != nil {
				return nil, err
			}
		}
	}
	return trees, nil
}

func forgetCheckpoint(tx *bolt.Tx, spriteID string, p Checkpoint) error {
	return openTable(tx, bucketCheckpoints, spriteID).Delete(encodeNumber(p.Number()))
}

// DeleteCheckpoint forgets one checkpoint and returns the layers that are garbage from then on.
func (s *Store) DeleteCheckpoint(spriteID, id string, mounted func(string) bool) (garbage []Layer, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		points, err := listCheckpoints(tx, spriteID)
		if err != nil {
			return err
		}
		p, err := findCheckpoint(points, id)
		if err != nil {
			return err
		}
		if garbage, err = releaseLayers(tx, []string{p.Tree}, mounted); err != nil {
			return err
		}
		return forgetCheckpoint(tx, spriteID, p)
	})
	return garbage, err
}

// Captured is a frozen layer with a sprite's present files, and the changes that the commit that refers to it has to store.
type Captured struct {
	Layer Layer
	Made  []Layer // new ones, the frozen one among them when it is a copy
	Tree  string  // the layer in which the sprite continues; "" = its present one
	Ended bool    // its sandbox was ended; services that waited for their next start want another one
}

// commitPresent stores a capture: it is part of the transaction that refers to the frozen layer.
func commitPresent(tx *bolt.Tx, rec *Sprite, p Captured, mounted func(string) bool) (garbage []Layer, err error) {
	for _, l := range p.Made {
		if err := addLayer(tx, l); err != nil {
			return nil, err
		}
	}
	if p.Tree == "" {
		return nil, nil
	}
	// The reference of the sprite goes from the layer that is now frozen to the new one.
	if garbage, err = freezeLayer(tx, p.Layer.ID, mounted); err != nil {
		return nil, err
	}
	if err := changeLayer(tx, p.Layer.ID, func(l *Layer) { l.Refs-- }); err != nil {
		return nil, err
	}
	rec.Tree = p.Tree
	return garbage, holdLayer(tx, p.Tree)
}

// ForkSprite stores the capture of the present files of sprite name, if there is one, and the new sprite.
func (s *Store) ForkSprite(name string, now Captured, forked Sprite, made Layer, mounted func(string) bool) (garbage []Layer, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		rec, err := getSprite(tx, name)
		if err != nil {
			return err
		}
		if garbage, err = commitPresent(tx, &rec, now, mounted); err != nil {
			return err
		}
		if err := putSprite(tx, rec); err != nil {
			return err
		}
		if err := addSprite(tx, forked, made); err != nil {
			return err
		}
		if err := copyServices(tx, rec.ID, forked.ID); err != nil {
			return err
		}
		// A copy that nothing stacks on was needed for the moment only.
		if len(now.Made) > 0 && now.Tree == "" {
			l, err := getLayer(tx, now.Layer.ID)
			if err != nil || l.Refs > 0 {
				return err
			}
			garbage, err = forgetLayer(tx, l, mounted)
			return err
		}
		return nil
	})
	return garbage, err
}
