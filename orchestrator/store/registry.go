package store

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Two registries list entries of the logs, so that listing them costs what they are and not what the log is: artifacts has
// the events by which runs declare products, intents the facts with which intents begin.

const (
	artifactEvent = "ARTIFACT"
	// intentKey is how the key of an audit entry begins with which an intent begins; the id follows.
	intentKey = "intent:"
)

func isArtifact(e lattice.Entry) bool {
	return e.Kind == lattice.EntryEvent && e.Type == artifactEvent
}

// makeArtifacts fills the registry from the entries of all runs.
func makeArtifacts(tx kv.Tx) error {
	registry, err := tx.Create(bucketArtifacts)
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketArtifacts, err)
	}
	return kv.ForEach(tx.Bucket(bucketEntries), func(key, raw []byte) error {
		e, err := decodeEntry(bucketEntries, key, raw)
		if err != nil || !isArtifact(e) {
			return nil // Check reports it
		}
		h, err := headOf(tx, e.Run)
		if err != nil {
			return nil
		}
		return registry.Put(indexKey(h.number, e.Seq), []byte(e.Run))
	})
}

// Artifacts yields the events by which a run declared products, the newest first; those of "", all runs, begin with the
// newest run.
func (s *Store) Artifacts(run string) iter.Seq2[lattice.Entry, error] {
	const page = 256
	return func(yield func(lattice.Entry, error) bool) {
		for before, more := []byte(nil), true; more; {
			var entries []lattice.Entry
			err := s.view(func(tx kv.Tx) (err error) {
				entries, before, err = readArtifacts(tx, run, before, page)
				return err
			})
			if err != nil {
				yield(lattice.Entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			more = len(entries) == page
		}
	}
}

// readArtifacts returns up to limit entries of the registry before a key, nil for the end, and the key of the last of them.
func readArtifacts(tx kv.Tx, run string, before []byte, limit int) (out []lattice.Entry, last []byte, err error) {
	registry, prefix := tx.Bucket(bucketArtifacts), []byte(nil)
	if registry == nil {
		return nil, nil, nil // an older file that is open for reading only
	}
	if run != "" {
		h, err := headOf(tx, run)
		if err != nil {
			return nil, nil, err
		}
		prefix = u32(h.number)
	}
	if before == nil {
		before = append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 12)...)
	}
	c := registry.Cursor()
	for k := lastBefore(c, before); bytes.HasPrefix(k, prefix) && k != nil && len(out) < limit; k, _ = c.Prev() {
		e, err := readArtifact(tx, k)
		if err != nil {
			return nil, nil, err
		}
		out, last = append(out, e), bytes.Clone(k)
	}
	return out, last, nil
}

func readArtifact(tx kv.Tx, key []byte) (lattice.Entry, error) {
	place := key[len(key)-8:]
	return decodeEntry(bucketEntries, place, tx.Bucket(bucketEntries).Get(place))
}

// lastBefore moves c to the last key that is less than end, and returns it.
func lastBefore(c kv.Cursor, end []byte) (k []byte) {
	if k, _ = c.Seek(end); k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	return k
}

// intentOf returns the id of the intent that begins with an audit entry.
func intentOf(e audit.Entry) (id string, ok bool) {
	id, ok = strings.CutPrefix(e.Key, intentKey)
	return id, ok && e.Kind == audit.Intent
}

func putIntent(registry kv.Bucket, e audit.Entry) error {
	id, ok := intentOf(e)
	if !ok {
		return nil
	}
	return errors.Join(registry.Put(append([]byte{'s'}, u64(e.Seq)...), []byte(id)), registry.Put(append([]byte{'i'}, id...), u64(e.Seq)))
}

func makeIntents(tx kv.Tx) error {
	registry, err := tx.Create(bucketIntents)
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketIntents, err)
	}
	return kv.ForEach(tx.Bucket(bucketAudit), func(key, _ []byte) error {
		e, err := readAudit(tx, key)
		if err != nil {
			return nil // Check reports it
		}
		return putIntent(registry, e)
	})
}

// Intents returns the ids of up to limit intents, the newest first, 0 of all. They are older than the intent before; "" begins with
// the newest.
func (s *Store) Intents(before string, limit int) (ids []string, err error) {
	err = s.view(func(tx kv.Tx) error {
		registry := tx.Bucket(bucketIntents)
		if registry == nil {
			return nil // an older file that is open for reading only
		}
		end := []byte{'s' + 1}
		if before != "" {
			end = append([]byte{'s'}, registry.Get(append([]byte{'i'}, before...))...)
		}
		c := registry.Cursor()
		for k := lastBefore(c, end); len(k) > 0 && k[0] == 's' && (limit == 0 || len(ids) < limit); k, _ = c.Prev() {
			ids = append(ids, string(registry.Get(k)))
		}
		return nil
	})
	return ids, err
}

// FindIntents returns the ids of intents that begin with prefix, at most two.
func (s *Store) FindIntents(prefix string) (ids []string, err error) {
	err = s.view(func(tx kv.Tx) error {
		registry := tx.Bucket(bucketIntents)
		if registry == nil {
			return nil
		}
		from := append([]byte{'i'}, prefix...)
		c := registry.Cursor()
		for k, _ := c.Seek(from); bytes.HasPrefix(k, from) && len(ids) < 2; k, _ = c.Next() {
			ids = append(ids, string(k[1:]))
		}
		return nil
	})
	return ids, err
}
