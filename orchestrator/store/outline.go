package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Outline returns the facts of a run behind after, in order, and of its events those that have at most near others
// between them and a fact, the start or the end: the first and last events of a step are always
// included. Only the returned entries are read.
func (s *Store) Outline(run string, after lattice.Seq, near int) ([]lattice.Entry, error) {
	var out []lattice.Entry
	err := s.view(func(tx kv.Tx) error {
		h, err := headOf(tx, run)
		if err != nil {
			return err
		}
		log, c := tx.Bucket(bucketEntries), tx.Bucket(bucketIndex).Cursor()
		picked := pickEntries(c, h.number, after, near)
		out = make([]lattice.Entry, 0, len(picked))
		for i, seq := range picked {
			if i%pageSize == 0 {
				fetchEntries(tx, picked[i:min(i+pageSize, len(picked))])
			}
			key := u64(uint64(seq))
			e, err := decodeEntry(bucketEntries, key, log.Get(key))
			if err != nil {
				return fmt.Errorf("run %s: %w", run, err)
			}
			out = append(out, e)
		}
		return nil
	})
	return out, err
}

func fetchEntries(tx kv.Tx, all []lattice.Seq) {
	keys := make([]kv.Key, len(all))
	for i, seq := range all {
		keys[i] = kv.Key{Bucket: bucketEntries, Key: u64(uint64(seq))}
	}
	tx.Fetch(keys...)
}

// Events returns the events of a type that a run holds behind after and whose text may hold part, in order. last is the run's last
// entry. All events behind after are looked through, but few others are decoded.
func (s *Store) Events(run, eventType, part string, after lattice.Seq) (events []lattice.Entry, last lattice.Seq, err error) {
	mark := fmt.Appendf(nil, `"type":%q`, eventType) // may be in a body as well
	err = s.view(func(tx kv.Tx) error {
		h, err := headOf(tx, run)
		if err != nil {
			return err
		}
		last = h.last
		log, c := tx.Bucket(bucketEntries), tx.Bucket(bucketIndex).Cursor()
		for k, v := c.Seek(indexKey(h.number, after+1)); len(k) == 12 && binary.BigEndian.Uint32(k) == h.number; k, v = c.Next() {
			if len(v) != 1 || v[0] != kindByte(lattice.EntryEvent) {
				continue
			}
			raw := log.Get(k[4:])
			if text, err := openSealed(bucketEntries, k[4:], raw); err == nil && !(bytes.Contains(text, mark) && mayHold(text, part)) {
				continue
			}
			e, err := decodeEntry(bucketEntries, k[4:], raw)
			if err != nil {
				return fmt.Errorf("run %s: %w", run, err)
			}
			if e.Type == eventType {
				events = append(events, e)
			}
		}
		return nil
	})
	return events, last, err
}

// mayHold reports whether a JSON text may hold a part in one of its strings: it does, or it has escapes, which may stand for it.
func mayHold(text []byte, part string) bool {
	return bytes.Contains(text, []byte(part)) || bytes.Contains(text, []byte(`\u`))
}

// pickEntries picks the sequence numbers by the index alone.
func pickEntries(c kv.Cursor, run uint32, after lattice.Seq, near int) (picked []lattice.Seq) {
	var last []lattice.Seq // events that the next fact may make worth telling, at most 2*near
	since := 0             // events since the last fact
	tell := func() {
		picked = append(picked, last[max(0, len(last)-near):]...)
		last = last[:0]
	}
	for k, v := c.Seek(indexKey(run, after+1)); len(k) == 12 && binary.BigEndian.Uint32(k) == run; k, v = c.Next() {
		seq := lattice.Seq(binary.BigEndian.Uint64(k[4:]))
		switch {
		case len(v) != 1 || v[0] != kindByte(lattice.EntryEvent):
			tell()
			picked, since = append(picked, seq), 0
			continue
		case since < near:
			picked = append(picked, seq)
		default:
			last = append(last, seq)
			if len(last) > 2*near {
				last = slices.Delete(last, 0, len(last)-near)
			}
		}
		since++
	}
	tell()
	return picked
}
