package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// The index of open actions has a key for each action that no run waits for and that a person has to decide on, and one for
// each that was closed by a decision, so that a request which is noted again stays closed. Each append changes the index by
// the facts that lattice.ChangeAction knows.

// The first byte of a key of the index.
const (
	actionOpen   = 'o'
	actionClosed = 'c'
)

func actionKey(state byte, number uint32, key string) []byte {
	return append([]byte{state}, dedupeKey(number, key)...)
}

// actionIndex is the index, or a model of it.
type actionIndex interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
}

func changeActions(index actionIndex, number uint32, run []byte, changes []lattice.ActionChange) error {
	for _, c := range changes {
		open, closed := actionKey(actionOpen, number, c.Key), actionKey(actionClosed, number, c.Key)
		if !c.Decided && index.Get(closed) != nil {
			continue
		}
		var err error
		switch {
		case c.Open:
			err = errors.Join(index.Put(open, run), index.Delete(closed))
		case c.Decided:
			err = errors.Join(index.Put(closed, run), index.Delete(open))
		default:
			err = index.Delete(open)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeActions fills the index from the facts of all runs.
func makeActions(tx kv.Tx) error {
	index, err := tx.Create(bucketActions)
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketActions, err)
	}
	return foldActions(tx, index)
}

func foldActions(tx kv.Tx, index actionIndex) error {
	return kv.ForEach(tx.Bucket(bucketEntries), func(key, raw []byte) error {
		e, err := decodeEntry(bucketEntries, key, raw)
		if err != nil {
			return nil // Check reports it, and reading it fails
		}
		return foldAction(tx, index, e)
	})
}

func foldAction(tx kv.Tx, index actionIndex, e lattice.Entry) error {
	change, ok, err := lattice.ChangeAction(e)
	if err != nil || !ok {
		return nil
	}
	h, err := headOf(tx, e.Run)
	if err != nil {
		return nil
	}
	return changeActions(index, h.number, []byte(e.Run), []lattice.ActionChange{change})
}

// actionModel is the index as the entries tell it.
type actionModel map[string]string

func (m actionModel) Get(key []byte) []byte {
	if run, ok := m[string(key)]; ok {
		return []byte(run)
	}
	return nil
}

func (m actionModel) Put(key, run []byte) error {
	m[string(key)] = string(run)
	return nil
}

func (m actionModel) Delete(key []byte) error {
	delete(m, string(key))
	return nil
}

// WithOpenActions returns the ids of the runs that have open actions, newest first.
func (s *Store) WithOpenActions() ([]string, error) {
	var out []string
	err := s.view(func(tx kv.Tx) error {
		if index := tx.Bucket(bucketActions); index != nil {
			c := index.Cursor()
			for k, id := c.Seek([]byte{actionOpen}); k != nil; k, id = c.Next() {
				out = append(out, string(id))
			}
			return nil
		}
		model := actionModel{} // the file is open for reading only
		err := foldActions(tx, model)
		for _, key := range slices.Sorted(maps.Keys(model)) {
			if key[0] == actionOpen {
				out = append(out, model[key])
			}
		}
		return err
	})
	slices.Reverse(out)
	return slices.Compact(out), err
}
