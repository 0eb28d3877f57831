package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// The index lookup finds the runs of a sprite and those of a work item, the index flows those of a flow. Their keys end with the
// number of the run, so that runs lie in the order in which they were created.

// field is a field by which runs are looked up.
type field byte

const (
	bySprite   field = 's'
	byWorkItem field = 'w'
	byFlow     field = 'f'
)

var fields = []field{bySprite, byWorkItem, byFlow}

// bucket returns the index that a field is in.
func (f field) bucket() []byte {
	if f == byFlow {
		return bucketFlows
	}
	return bucketLookup
}

func (f field) valueOf(r RunRecord) string {
	switch f {
	case bySprite:
		return r.Sprite
	case byFlow:
		var o struct {
			Flow string `json:"flow_name"`
		}
		_ = json.Unmarshal(r.Options, &o) // options of another form name no flow
		return o.Flow
	}
	return r.WorkItem
}

func (f field) keyPrefix(value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return append([]byte{byte(f)}, sum[:16]...)
}

func putLookups(tx kv.Tx, number uint32, run RunRecord) error {
	for _, f := range fields {
		value, index := f.valueOf(run), tx.Bucket(f.bucket())
		if value == "" || index == nil { // makeLookups makes one index after the other
			continue
		}
		if err := index.Put(append(f.keyPrefix(value), u32(number)...), []byte(run.ID)); err != nil {
			return err
		}
	}
	return nil
}

// makeLookups fills an index from the records of all runs.
func makeLookups(tx kv.Tx, bucket []byte) error {
	if _, err := tx.Create(bucket); err != nil {
		return fmt.Errorf("create bucket %s: %w", bucket, err)
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
func (s *Store) OfSprite(name string) ([]RunRecord, error) { return s.lookUp(bySprite, name, "", 0) }

// OfWorkItem returns the runs for a work item, without their programs, newest first.
func (s *Store) OfWorkItem(id string) ([]RunRecord, error) { return s.lookUp(byWorkItem, id, "", 0) }

// OfFlow returns up to limit runs of a flow, without their programs, newest first; 0 means all. before is the id of a run to go on
// behind, "" for the newest.
func (s *Store) OfFlow(name, before string, limit int) ([]RunRecord, error) {
	return s.lookUp(byFlow, name, before, limit)
}

func (s *Store) lookUp(f field, value, before string, limit int) ([]RunRecord, error) {
	if !s.hasIndex(f.bucket()) {
		all, err := s.recentUnindexed(before, 0)
		all = slices.DeleteFunc(all, func(r RunRecord) bool { return f.valueOf(r) != value })
		if limit > 0 && len(all) > limit {
			all = all[:limit]
		}
		return all, err
	}
	var out []RunRecord
	err := s.view(func(tx kv.Tx) error {
		end := uint32(math.MaxUint32)
		if before != "" {
			h, err := headOf(tx, before)
			if err != nil {
				return err
			}
			end = h.number
		}
		prefix := f.keyPrefix(value)
		c := tx.Bucket(f.bucket()).Cursor()
		previous := c.Prev
		if k, _ := c.Seek(append(slices.Clip(prefix), u32(end)...)); k == nil {
			previous = c.Last
		}
		for k, id := previous(); bytes.HasPrefix(k, prefix) && (limit == 0 || len(out) < limit); k, id = c.Prev() {
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
	return out, err
}

// Count returns the number of runs.
func (s *Store) Count() (int, error) {
	made := 0
	err := s.view(func(tx kv.Tx) error {
		made = int(tx.Bucket(bucketRuns).Sequence())
		return nil
	})
	return made, err
}

func (c *checker) checkLookups(tx kv.Tx, bucket []byte) {
	want := map[string]string{}
	visitBucket(tx, bucketRuns, func(id string, raw []byte) {
		run, err := readRun(tx, []byte(id), raw, false)
		if err != nil {
			return // reported as a record
		}
		for _, f := range fields {
			if value := f.valueOf(run); value != "" && bytes.Equal(f.bucket(), bucket) {
				want[string(append(f.keyPrefix(value), u32(c.heads[id].number)...))] = id
			}
		}
	})
	listed := 0
	visitBucket(tx, bucket, func(key string, id []byte) {
		listed++
		if want[key] != string(id) {
			c.addFinding("index", string(id), "the index %s has it at %x, where it does not belong", bucket, key)
		}
	})
	if listed != len(want) {
		c.addFinding("index", "", "the index %s has %d of %d keys", bucket, listed, len(want))
	}
}
