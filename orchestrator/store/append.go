package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/commit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Append implements the engine's Log: the entries are on disk, in order and all of them, when it returns nil. It fails
// with lattice.ErrConflict when after is not the run's last sequence number. Seq of the stored entries is set in place;
// an entry whose Dedupe the run already has is left out and keeps 0. A state entry has no place in the sequence: it
// replaces the run's snapshot. It returns the run's last sequence number.
func (s *Store) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	a := &appending{run: run, after: after, entries: entries}
	err := a.encodeEntries()
	if err == nil {
		err = s.commits.Commit(ctx, &commit.Request{Reads: a.listReads(), Check: a.checkSequence, Write: a.write})
	}
	if err != nil {
		for i := range entries {
			entries[i].Seq = 0
		}
		return 0, err
	}
	for _, e := range entries {
		if e.Seq != 0 {
			s.tally.add(e.Kind, e.Type, 1)
		}
	}
	return a.head.last, nil
}

type appending struct {
	run     string
	after   lattice.Seq
	entries []lattice.Entry
	encoded [][]byte // of each entry, as for the sequence number 0
	actions []lattice.ActionChange
	head    head

	snapshot lattice.Entry // the state among entries
}

// encodeEntries encodes the entries before the turn of the committer. Only the sequence numbers are missing then.
func (a *appending) encodeEntries() error {
	a.encoded = make([][]byte, len(a.entries))
	for i := range a.entries {
		e := &a.entries[i]
		switch {
		case e.Run != a.run:
			return fmt.Errorf("append to run %s: an entry belongs to run %q", a.run, e.Run)
		case kindByte(e.Kind) == 0:
			return fmt.Errorf("append to run %s: unknown entry kind %q", a.run, e.Kind)
		}
		e.Seq = 0
		raw, err := marshalJSON(e)
		if err != nil {
			return fmt.Errorf("encode %s of run %s: %w", e.Type, a.run, err)
		}
		a.encoded[i] = raw
		change, ok, err := lattice.ChangeAction(*e)
		if err != nil {
			return fmt.Errorf("append to run %s: %w", a.run, err)
		}
		if ok {
			a.actions = append(a.actions, change)
		}
	}
	return nil
}

// unnumbered is how an encoded entry begins before it has its place.
const unnumbered = `{"seq":0`

// sealNumbered gives an encoded entry its sequence number, and seals it.
func sealNumbered(bucket, key, raw []byte, seq lattice.Seq) []byte {
	out := make([]byte, boltfile.SealSize, boltfile.SealSize+len(raw)+20)
	out = strconv.AppendUint(append(out, unnumbered[:len(unnumbered)-1]...), uint64(seq), 10)
	return boltfile.SealIn(bucket, key, append(out, raw[len(unnumbered):]...))
}

// listReads returns the keys that each append reads. Those of entries with dedupe keys depend on the number of the run.
func (a *appending) listReads() []kv.Key {
	run := []byte(a.run)
	return []kv.Key{{Bucket: bucketHeads, Key: run}, {Bucket: bucketStates, Key: run}, {Bucket: bucketOpen, Key: run}}
}

// fetchDedupes returns the dedupe key of each entry, nil for one without, and reads them ahead.
func (a *appending) fetchDedupes(tx kv.Tx) [][]byte {
	keys, reads := make([][]byte, len(a.entries)), make([]kv.Key, 0, len(a.entries))
	for i, e := range a.entries {
		if e.Dedupe != "" && e.Kind != lattice.EntryState {
			keys[i] = dedupeKey(a.head.number, e.Dedupe)
			reads = append(reads, kv.Key{Bucket: bucketDedupe, Key: keys[i]})
		}
	}
	tx.Fetch(reads...)
	return keys
}

func (a *appending) checkSequence(tx kv.Tx) error {
	h, err := headOf(tx, a.run)
	if err != nil {
		return err
	}
	if h.last != a.after {
		return fmt.Errorf("append to run %s after %d: %w to %d", a.run, a.after, lattice.ErrConflict, h.last)
	}
	a.head = h
	return nil
}

func (a *appending) write(tx kv.Tx) error {
	log, index, dedupe := tx.Bucket(bucketEntries), tx.Bucket(bucketIndex), tx.Bucket(bucketDedupe)
	keys := a.fetchDedupes(tx)
	var state []byte
	for i := range a.entries {
		e := &a.entries[i]
		e.Seq = 0
		if e.Kind == lattice.EntryState {
			state, a.snapshot = a.encoded[i], *e
			continue
		}
		key := keys[i]
		if key != nil && dedupe.Get(key) != nil {
			continue
		}
		seq, err := log.NextSequence()
		if err != nil {
			return fmt.Errorf("take a sequence number: %w", err)
		}
		e.Seq = lattice.Seq(seq)
		place := u64(seq)
		if err := log.Put(place, sealNumbered(bucketEntries, place, a.encoded[i], e.Seq)); err != nil {
			return fmt.Errorf("put entry: %w", err)
		}
		if err := index.Put(indexKey(a.head.number, e.Seq), []byte{kindByte(e.Kind)}); err != nil {
			return fmt.Errorf("put index: %w", err)
		}
		if key != nil {
			if err := dedupe.Put(key, place); err != nil {
				return fmt.Errorf("put dedupe key: %w", err)
			}
		}
		a.head.last = e.Seq
		if isArtifact(*e) {
			if err := tx.Bucket(bucketArtifacts).Put(indexKey(a.head.number, e.Seq), []byte(a.run)); err != nil {
				return fmt.Errorf("put index: %w", err)
			}
		}
		if e.Kind == lattice.EntryEvent {
			a.head.events += uint64(len(e.Body))
		}
	}
	run := []byte(a.run)
	if state != nil {
		if err := putState(tx.Bucket(bucketStates), run, sealNumbered(bucketStates, run, state, a.head.last)); err != nil {
			return fmt.Errorf("put state: %w", err)
		}
		if err := markOpen(tx, run, a.snapshot); err != nil {
			return fmt.Errorf("put index: %w", err)
		}
	}
	if err := changeActions(tx.Bucket(bucketActions), a.head.number, run, a.actions); err != nil {
		return fmt.Errorf("put index: %w", err)
	}
	return tx.Bucket(bucketHeads).Put(run, a.head.encode(run))
}

// putState replaces the snapshot of a run. The sequence of the bucket counts the snapshots, so that a check notices a lost one.
func putState(states kv.Bucket, run, sealed []byte) error {
	if states.Get(run) == nil {
		if _, err := states.NextSequence(); err != nil {
			return err
		}
	}
	return states.Put(run, sealed)
}

// head is where a run's log ends. The number is the run's short name in composed keys.
type head struct {
	number uint32
	last   lattice.Seq
	events uint64 // bytes of the bodies of its events; those appended under schema 1 are not counted
}

func (h head) encode(run []byte) []byte {
	raw := binary.BigEndian.AppendUint32(make([]byte, boltfile.SealSize, boltfile.SealSize+20), h.number)
	raw = binary.BigEndian.AppendUint64(raw, uint64(h.last))
	return boltfile.SealIn(bucketHeads, run, binary.BigEndian.AppendUint64(raw, h.events))
}

func headOf(tx kv.Tx, run string) (head, error) {
	raw := tx.Bucket(bucketHeads).Get([]byte(run))
	if raw == nil {
		return head{}, fmt.Errorf("%w: %s", ErrNotFound, run)
	}
	return decodeHead([]byte(run), raw)
}

func decodeHead(run, raw []byte) (head, error) {
	var events uint64
	if len(raw) != 12 { // of schema 1
		var err error
		if raw, err = openSealed(bucketHeads, run, raw); err != nil {
			return head{}, err
		}
		if len(raw) != 20 {
			return head{}, fmt.Errorf("%w: the head of run %s has %d bytes", ErrDamaged, run, len(raw))
		}
		events = binary.BigEndian.Uint64(raw[12:])
	}
	return head{number: binary.BigEndian.Uint32(raw), last: lattice.Seq(binary.BigEndian.Uint64(raw[4:])), events: events}, nil
}

func indexKey(run uint32, seq lattice.Seq) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, run), uint64(seq))
}

func dedupeKey(run uint32, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return append(binary.BigEndian.AppendUint32(nil, run), sum[:16]...)
}

// kindByte is how the index writes a kind; 0 is unknown.
func kindByte(k lattice.EntryKind) byte {
	switch k {
	case lattice.EntryFact:
		return 'f'
	case lattice.EntryEvent:
		return 'e'
	case lattice.EntryState:
		return 's'
	}
	return 0
}
