package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Indexes answer the frequent questions in a time that does not grow with the number of runs: order holds runs in the order
// in which they were created, open those that have not ended. See actions.go and lookup.go for the others. A file without
// them gets them when it is opened for writing.

func isIndex(bucket []byte) bool {
	return slices.ContainsFunc(indexBuckets, func(index []byte) bool { return bytes.Equal(index, bucket) })
}

func hasIndexes(db kv.Session) bool {
	has := false
	err := db.View(func(tx kv.Tx) error {
		has = hasBuckets(tx, indexBuckets...)
		return nil
	})
	return err == nil && has
}

func hasBuckets(tx kv.Tx, names ...[]byte) bool {
	return !slices.ContainsFunc(names, func(name []byte) bool { return tx.Bucket(name) == nil })
}

// makeIndexes makes the indexes that a file lacks.
func makeIndexes(tx kv.Tx) error {
	if !hasBuckets(tx, bucketOrder, bucketOpen) {
		if err := makeLists(tx); err != nil {
			return err
		}
	}
	if !hasBuckets(tx, bucketActions) {
		if err := makeActions(tx); err != nil {
			return err
		}
	}
	for _, bucket := range lookups {
		if hasBuckets(tx, bucket) {
			continue
		}
		if err := makeLookups(tx, bucket); err != nil {
			return err
		}
	}
	if err := makeAudit(tx); err != nil {
		return err
	}
	if !hasBuckets(tx, bucketArtifacts) {
		if err := makeArtifacts(tx); err != nil {
			return err
		}
	}
	if hasBuckets(tx, bucketIntents) {
		return nil
	}
	return makeIntents(tx)
}

// makeLists fills the indexes order and open.
func makeLists(tx kv.Tx) error {
	order, err := tx.Create(bucketOrder)
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketOrder, err)
	}
	open, err := tx.Create(bucketOpen)
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketOpen, err)
	}
	return kv.ForEach(tx.Bucket(bucketHeads), func(run, raw []byte) error {
		h, err := decodeHead(run, raw)
		if err != nil {
			return err
		}
		if err := order.Put(u32(h.number), run); err != nil {
			return err
		}
		if state, found, err := stateOf(tx, string(run)); err == nil && found && hasEnded(state) {
			return nil
		}
		return open.Put(run, nil)
	})
}

// hasEnded reads from a snapshot whether its run has ended.
func hasEnded(state lattice.Entry) bool {
	var s struct {
		Status lattice.RunStatus `json:"status"`
	}
	return json.Unmarshal(state.Body, &s) == nil && s.Status.Ended()
}

// markOpen keeps the index of open runs: state is the run's new snapshot.
func markOpen(tx kv.Tx, run []byte, state lattice.Entry) error {
	open := tx.Bucket(bucketOpen)
	there := open.Has(run)
	switch over := slices.Contains(state.Flags, lattice.FlagEnded); {
	case over && there:
		return open.Delete(run)
	case !over && !there:
		return open.Put(run, nil)
	}
	return nil
}

func u32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// Recent returns up to limit runs, without their programs, newest first; 0 means all. before is the id of a run to go on
// behind, "" for the newest.
func (s *Store) Recent(before string, limit int) ([]RunRecord, error) {
	if !s.hasIndex(bucketOrder) {
		return s.recentUnindexed(before, limit)
	}
	var out []RunRecord
	err := s.view(func(tx kv.Tx) (err error) {
		c := tx.Bucket(bucketOrder).Cursor()
		k, id := c.Last()
		if before != "" {
			h, err := headOf(tx, before)
			if err != nil {
				return err
			}
			c.Seek(u32(h.number))
			k, id = c.Prev()
		}
		var page []kv.Key
		for ; k != nil && (limit == 0 || len(page) < limit); k, id = c.Prev() {
			page = append(page, kv.Key{Bucket: bucketRuns, Key: id})
		}
		out, err = readRuns(tx, page)
		return err
	})
	return out, err
}

func readRuns(tx kv.Tx, keys []kv.Key) (out []RunRecord, err error) {
	tx.Fetch(keys...)
	for _, at := range keys {
		run, err := readRun(tx, at.Key, tx.Bucket(bucketRuns).Get(at.Key), false)
		if err != nil {
			return out, err
		}
		out = append(out, run)
	}
	return out, nil
}

// hasIndex reports whether the file has an index. A file that is open for reading only may be older than the index.
func (s *Store) hasIndex(bucket []byte) bool {
	has := false
	err := s.view(func(tx kv.Tx) error {
		has = hasBuckets(tx, bucket)
		return nil
	})
	return err != nil || has
}

func (s *Store) recentUnindexed(before string, limit int) ([]RunRecord, error) {
	all, err := s.Runs()
	if i := slices.IndexFunc(all, func(r RunRecord) bool { return r.ID == before }); before != "" {
		all = all[i+1:]
	}
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all, err
}

// Open returns the runs that have not ended, and perhaps some that have, without their programs, newest first.
func (s *Store) Open() ([]RunRecord, error) {
	var out []RunRecord
	if !s.hasIndex(bucketOpen) {
		return s.Runs()
	}
	err := s.view(func(tx kv.Tx) error {
		var all []kv.Key
		err := kv.ForEach(tx.Bucket(bucketOpen), func(id, _ []byte) error {
			all = append(all, kv.Key{Bucket: bucketRuns, Key: id})
			return nil
		})
		if err == nil {
			out, err = readRuns(tx, all)
		}
		return err
	})
	slices.SortStableFunc(out, newestFirst)
	return out, err
}

// checkIndexes checks those that the file has: one that was not opened for writing since an index exists lacks it.
func (c *checker) checkIndexes(tx kv.Tx) {
	if hasBuckets(tx, bucketOrder, bucketOpen) {
		c.checkLists(tx)
	}
	if hasBuckets(tx, bucketActions) {
		c.openActions(tx)
	}
	for _, bucket := range lookups {
		if hasBuckets(tx, bucket) {
			c.checkLookups(tx, bucket)
		}
	}
	c.checkRegistries(tx)
}

func (c *checker) checkLists(tx kv.Tx) {
	listed := 0
	visitBucket(tx, bucketOrder, func(key string, id []byte) {
		if h, known := c.heads[string(id)]; !known || string(u32(h.number)) != key {
			c.addFinding("index", string(id), "the list of runs has it at %x, which is not its number", key)
		}
		listed++
	})
	if listed != len(c.heads) {
		c.addFinding("index", "", "the list of runs has %d of %d", listed, len(c.heads))
	}
	open := map[string]bool{}
	visitBucket(tx, bucketOpen, func(id string, _ []byte) {
		if _, known := c.heads[id]; !known {
			c.addFinding("index", id, "the list of open runs has it, and it is not there")
		}
		open[id] = true
	})
	for id := range c.heads {
		state, found, err := stateOf(tx, id)
		if over := err == nil && found && hasEnded(state); err == nil && over == open[id] {
			c.addFinding("index", id, "the list of open runs is wrong about it: ended is %v", over)
		}
	}
}
