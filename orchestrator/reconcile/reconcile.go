// Package reconcile merges the events that a sprite's stream showed with those that its outbox holds, in bounded memory, with
// temporary files. Start with Merger.
//
// Each event appears once, sorted by time, stable: the outbox before the stream, each in its own order. The copy of the
// outbox wins. Events are identified by event_id; those without one count as a multiset: the same event three times in one
// source and twice in the other happened three times. An event without a valid timestamp is placed after its predecessor
// in its own source, or first if it has none.
//
// The texts of the events are appended to a spool; for each event an entry of a few dozen bytes stays: a hash of its
// identity, its time and the place of its text. An external merge sort orders the entries of each source by identity, a
// merge join pairs them, and a second external sort orders the result by time. Temporary files are unlinked when they are
// made, so that none is left however the process ends.
package reconcile

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

const (
	// spoolMemory is how many bytes of events stay in memory.
	spoolMemory = 4 << 20
	// sortMemory is how many entries are sorted in memory at a time, 56 bytes each.
	sortMemory = 64 << 10
)

// Merger takes the events of an outbox and of a stream and gives them back merged. Call Close when done.
type Merger struct {
	outbox, stream source
	byTime         sorter
	texts          spool
}

// source is one of the two places where events were seen.
type source struct {
	entries sorter // by identity
	count   int64
	before  time.Time // place of the event before; zero when there is none
}

// New returns a Merger whose temporary files are made in folder tmp, os.TempDir() when that is empty. Without many
// events there are none.
func New(tmp string) *Merger { return newMerger(tmp, spoolMemory, sortMemory) }

func newMerger(tmp string, spoolMemory, sortMemory int) *Merger {
	m := &Merger{texts: spool{tmp: tmp, limit: spoolMemory}}
	m.outbox.entries = sorter{compare: byKey, limit: sortMemory, spool: spool{tmp: tmp}}
	m.stream.entries = sorter{compare: byKey, limit: sortMemory, spool: spool{tmp: tmp}}
	m.byTime = sorter{compare: byTime, limit: sortMemory, spool: spool{tmp: tmp}}
	return m
}

// AddOutbox takes the next event of the outbox.
func (m *Merger) AddOutbox(e protocol.Event) error { return m.addEvent(&m.outbox, inOutbox, e) }

// AddStream takes the next event of the stream.
func (m *Merger) AddStream(e protocol.Event) error { return m.addEvent(&m.stream, inStream, e) }

func (m *Merger) addEvent(s *source, seen uint8, e protocol.Event) error {
	if t, err := protocol.ParseTime(e.Timestamp); err == nil {
		s.before = t
	}
	at, err := m.texts.add(e.Raw)
	if err != nil {
		return fmt.Errorf("put an event aside: %w", err)
	}
	key := sha256.Sum256([]byte(protocol.DedupeKey(e)))
	entry := entry{
		key: [16]byte(key[:]), index: s.count, sec: s.before.Unix(), nsec: int32(s.before.Nanosecond()),
		at: at, size: int32(len(e.Raw)), seen: seen, hasID: e.EventID != "",
	}
	s.count++
	if err := s.entries.add(entry); err != nil {
		return fmt.Errorf("put an event aside: %w", err)
	}
	return nil
}

// Each calls do for each merged event, in order. Of the event only Raw is set, and it is valid during the call alone. Each
// returns the first error of do. It may be called once.
func (m *Merger) Each(do func(Merged) error) error {
	if err := m.matchEntries(); err != nil {
		return fmt.Errorf("match the stream with the outbox: %w", err)
	}
	sorted, err := m.byTime.sortAll()
	if err != nil {
		return fmt.Errorf("order the events by time: %w", err)
	}
	for {
		e, err := sorted.next()
		if errors.Is(err, errDone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("order the events by time: %w", err)
		}
		raw, err := m.texts.read(e.at, int(e.size))
		if err != nil {
			return fmt.Errorf("read an event that was put aside: %w", err)
		}
		if err := do(Merged{Source: e.sourceOf(), Event: protocol.Event{Raw: raw}}); err != nil {
			return err
		}
	}
}

// matchEntries pairs equal events of the outbox and the stream, the first with the first, and hands each event on once.
func (m *Merger) matchEntries() error {
	outbox, err := newDistinct(&m.outbox.entries)
	if err != nil {
		return err
	}
	stream, err := newDistinct(&m.stream.entries)
	if err != nil {
		return err
	}
	for {
		var found entry
		switch order := outbox.compareHeads(stream); {
		case outbox.done && stream.done:
			return nil
		case order < 0:
			found, err = outbox.takeHead()
		case order > 0:
			found, err = stream.takeHead()
		default:
			if found, err = outbox.takeHead(); err == nil {
				_, err = stream.takeHead()
			}
			found.seen |= inStream
		}
		if err != nil {
			return err
		}
		if err := m.byTime.add(found); err != nil {
			return err
		}
	}
}

// distinct goes through sorted entries; of those with the same event_id it shows the first.
type distinct struct {
	rest *cursor
	head entry
	done bool
}

func newDistinct(entries *sorter) (*distinct, error) {
	rest, err := entries.sortAll()
	if err != nil {
		return nil, err
	}
	d := &distinct{rest: rest}
	return d, d.skipEqual()
}

func (d *distinct) skipEqual() error {
	for last := d.head; ; {
		e, err := d.rest.next()
		if errors.Is(err, errDone) {
			d.done = true
			return nil
		}
		if err != nil {
			return err
		}
		if !e.hasID || e.key != last.key {
			d.head = e
			return nil
		}
	}
}

// takeHead returns the next entry and moves on.
func (d *distinct) takeHead() (entry, error) {
	e := d.head
	return e, d.skipEqual()
}

// compareHeads compares the next entries by key. A source at its end comes last.
func (d *distinct) compareHeads(other *distinct) int {
	switch {
	case d.done:
		return 1
	case other.done:
		return -1
	}
	return cmp.Compare(string(d.head.key[:]), string(other.head.key[:]))
}

// Close releases memory and disk.
func (m *Merger) Close() error {
	return errors.Join(m.outbox.entries.spool.close(), m.stream.entries.spool.close(), m.byTime.spool.close(), m.texts.close())
}
