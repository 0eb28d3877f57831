package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// The index lookup finds the runs of a sprite and those of a work item. Its keys end with the number of the run, so that
// runs lie in the order in which they were created.

var bucketLookup = []byte("lookup")

// field is a field by which runs are looked up.
type field byte

const (
	bySprite   field = 's'
	byWorkItem field = 'w'
)

func (f field) valueOf(r RunRecord) string {
	if f == bySprite {
		return r.Sprite
	}
	return r.WorkItem
}

func (f field) keyPrefix(value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return append([]byte{byte(f)}, sum[:16]...)
}

func putLookups(tx kv.Tx, number uint32, run RunRecord) error {
	for _, f := range []field{bySprite, byWorkItem} {
		if f.valueOf(run) == "" {
			continue
		}
		if err := tx.Bucket(bucketLookup).Put(append(f.keyPrefix(f.valueOf(run)), u32(number)...), []byte(run.ID)); err != nil {
			return err
		}
	}
	return nil
}

// makeLookups fills the index from the records of all runs.
func makeLookups(tx kv.Tx) error {
	if _, err := tx.Create(bucketLookup); err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketLookup, err)
	}
	return kv.ForEach(tx.Bucket(bucketRuns), func(id, raw []byte) error {
		run, err := readRun(tx, id, raw, false)
		if err != nil {
			return nil // Check reports it, and reading it fails
		}
		h, err := headOf(tx, run.ID)
		if err != nil {
			return nil
		}
		return putLookups(tx, h.number, run)
	})
}

// OfSprite returns the runs that were created with a sprite as their main one, without their programs, newest first.
func (s *Store) OfSprite(name string) ([]RunRecord, error) { return s.lookUp(bySprite, name) }

// OfWorkItem returns the runs for a work item, without their programs, newest first.
func (s *Store) OfWorkItem(id string) ([]RunRecord, error) { return s.lookUp(byWorkItem, id) }

func (s *Store) lookUp(f field, value string) ([]RunRecord, error) {
	if !s.hasIndex(bucketLookup) {
		all, err := s.Runs()
		return slices.DeleteFunc(all, func(r RunRecord) bool { return f.valueOf(r) != value }), err
	}
	var out []RunRecord
	err := s.db.View(func(tx kv.Tx) error {
		prefix := f.keyPrefix(value)
		c := tx.Bucket(bucketLookup).Cursor()
		for k, id := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, id = c.Next() {
			run, err := readRun(tx, id, tx.Bucket(bucketRuns).Get(id), false)
			if err != nil {
				return err
			}
			if f.valueOf(run) == value {
				out = append(out, run)
			}
		}
		return nil
	})
	slices.Reverse(out)
	return out, err
}

// Count returns the number of runs.
func (s *Store) Count() (int, error) {
	made := 0
	err := s.db.View(func(tx kv.Tx) error {
		made = int(tx.Bucket(bucketRuns).Sequence())
		return nil
	})
	return made, err
}

func (c *checker) checkLookups(tx kv.Tx) {
	want := map[string]string{}
	visitBucket(tx, bucketRuns, func(id string, raw []byte) {
		run, err := readRun(tx, []byte(id), raw, false)
		if err != nil {
			return // reported as a record
		}
		for _, f := range []field{bySprite, byWorkItem} {
			if f.valueOf(run) != "" {
				want[string(append(f.keyPrefix(f.valueOf(run)), u32(c.heads[id].number)...))] = id
			}
		}
	})
	listed := 0
	visitBucket(tx, bucketLookup, func(key string, id []byte) {
		listed++
		if want[key] != string(id) {
			c.addFinding("index", string(id), "the index of sprites and work items has it at %x, where it does not belong", key)
		}
	})
	if listed != len(want) {
		c.addFinding("index", "", "the index of sprites and work items has %d of %d keys", listed, len(want))
	}
}
