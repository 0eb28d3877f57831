package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// pageSize is how many entries one read transaction of Tail takes.
const pageSize = 256

// Entries returns up to limit entries of a run behind after, in order; limit 0 means all. An empty run means every run.
// State snapshots are not among them.
func (s *Store) Entries(run string, after lattice.Seq, limit int) ([]lattice.Entry, error) {
	var out []lattice.Entry
	err := s.view(func(tx kv.Tx) (err error) {
		if run == "" {
			out, err = allEntries(tx, after, limit)
			return err
		}
		out, err = runEntries(tx, run, after, limit, 0)
		return err
	})
	return out, err
}

// History holds the entries that a driver needs to continue a run, all of one moment.
type History struct {
	Facts      []lattice.Entry // in order
	State      lattice.Entry   // the newest snapshot, see State; its Body is nil before the first
	Last       lattice.Seq     // of the last entry of any kind
	EventBytes uint64          // of the bodies of its events
}

// Load returns the history of a run. It fails with ErrDamaged when its facts are not those that were appended.
func (s *Store) Load(run string) (History, error) {
	var out History
	err := s.view(func(tx kv.Tx) error {
		h, err := headOf(tx, run)
		if err != nil {
			return err
		}
		out.Last, out.EventBytes = h.last, h.events
		if out.Facts, err = runEntries(tx, run, 0, 0, kindByte(lattice.EntryFact)); err != nil {
			return err
		}
		chain := ""
		for _, e := range out.Facts {
			if chain, err = followChain(chain, e); err != nil {
				return fmt.Errorf("%w: run %s: %w", ErrDamaged, run, err)
			}
		}
		out.State, _, err = stateOf(tx, run)
		return err
	})
	return out, err
}

// followChain returns the chain behind a fact. It fails when the fact is not the next one.
func followChain(chain string, fact lattice.Entry) (string, error) {
	if fact.Chain == "" && chain == "" {
		return "", nil // of a version that made none
	}
	if want := lattice.Chain(chain, fact); fact.Chain != want {
		return fact.Chain, fmt.Errorf("entry %d does not follow from those before it: it has the chain %s, not %s", fact.Seq, fact.Chain, want)
	}
	return fact.Chain, nil
}

// State returns the newest snapshot of a run; its Seq is that of the last entry before it. ok is false before the first.
// There may be facts behind it, see FactBehind.
func (s *Store) State(run string) (state lattice.Entry, ok bool, err error) {
	err = s.view(func(tx kv.Tx) error {
		if _, err := headOf(tx, run); err != nil {
			return err
		}
		state, ok, err = stateOf(tx, run)
		return err
	})
	return state, ok, err
}

// FactBehind reports whether a run has a fact behind a place in its log, such as that of its snapshot.
func (s *Store) FactBehind(run string, after lattice.Seq) (bool, error) {
	found := false
	err := s.view(func(tx kv.Tx) error {
		h, err := headOf(tx, run)
		if err != nil || h.last <= after {
			return err
		}
		c := tx.Bucket(bucketIndex).Cursor()
		for k, v := c.Seek(indexKey(h.number, after+1)); len(k) == 12 && binary.BigEndian.Uint32(k) == h.number && !found; k, v = c.Next() {
			found = len(v) != 1 || v[0] != kindByte(lattice.EntryEvent)
		}
		return nil
	})
	return found, err
}

func stateOf(tx kv.Tx, run string) (lattice.Entry, bool, error) {
	raw := tx.Bucket(bucketStates).Get([]byte(run))
	if raw == nil {
		return lattice.Entry{}, false, nil
	}
	e, err := decodeEntry(bucketStates, []byte(run), raw)
	return e, err == nil, err
}

// Tail yields the entries of a run behind after and then follows it, until ctx ends (the last yield is ctx's error) or
// the store closes (ErrClosed). An empty run means every run. It does not poll.
func (s *Store) Tail(ctx context.Context, run string, after lattice.Seq) iter.Seq2[lattice.Entry, error] {
	return func(yield func(lattice.Entry, error) bool) {
		for {
			changed := s.commits.Changed() // before reading: a commit in between is not missed
			page, err := s.Entries(run, after, pageSize)
			if err != nil {
				yield(lattice.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(page) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(lattice.Entry{}, ctx.Err())
				return
			}
		}
	}
}

// runEntries reads through the index; kind 0 means all kinds.
func runEntries(tx kv.Tx, run string, after lattice.Seq, limit int, kind byte) ([]lattice.Entry, error) {
	h, err := headOf(tx, run)
	if err != nil {
		return nil, err
	}
	var out []lattice.Entry
	log, c := tx.Bucket(bucketEntries), tx.Bucket(bucketIndex).Cursor()
	k, v := c.Seek(indexKey(h.number, after+1))
	for len(k) == 12 && (limit == 0 || len(out) < limit) {
		var page []kv.Key
		for ; len(k) == 12 && binary.BigEndian.Uint32(k) == h.number && len(page) < pageSize && (limit == 0 || len(out)+len(page) < limit); k, v = c.Next() {
			if kind == 0 || len(v) == 1 && v[0] == kind {
				page = append(page, kv.Key{Bucket: bucketEntries, Key: k[4:]})
			}
		}
		if len(page) == 0 {
			break
		}
		tx.Fetch(page...)
		for _, at := range page {
			e, err := decodeEntry(bucketEntries, at.Key, log.Get(at.Key))
			if err != nil {
				return nil, fmt.Errorf("run %s: %w", run, err)
			}
			out = append(out, e)
		}
	}
	return out, nil
}

func allEntries(tx kv.Tx, after lattice.Seq, limit int) ([]lattice.Entry, error) {
	var out []lattice.Entry
	c := tx.Bucket(bucketEntries).Cursor()
	for k, v := c.Seek(u64(uint64(after) + 1)); k != nil; k, v = c.Next() {
		e, err := decodeEntry(bucketEntries, k, v)
		if err != nil {
			return nil, err
		}
		if out = append(out, e); len(out) == limit {
			break
		}
	}
	return out, nil
}

// decodeEntry copies the parts that it keeps: raw belongs to the transaction.
func decodeEntry(bucket, key, raw []byte) (lattice.Entry, error) {
	var e lattice.Entry
	if raw == nil {
		return e, fmt.Errorf("%w: an entry that the index names is missing", ErrDamaged)
	}
	raw, err := openSealed(bucket, key, raw)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("decode entry: %w", err)
	}
	return e, nil
}
