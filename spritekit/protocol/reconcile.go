package protocol

import (
	"slices"
	"time"
)

// Source is where a merged event was found.
type Source string

const (
	SourceStream Source = "stream"
	SourceOutbox Source = "outbox"
	SourceBoth   Source = "both"
)

// Merged is one event of a reconciliation.
type Merged struct {
	Source Source
	Event  Event
}

// AppendJSON appends m as one compact object, {"source":…,"event":{…}}.
func (m Merged) AppendJSON(out []byte) []byte {
	out = append(append(append(out, `{"source":"`...), m.Source...), `","event":`...)
	return append(append(out, m.Event.Raw...), '}')
}

// Reconcile merges the events of a stream with those of the outbox: each event once, sorted by time, stable (outbox
// before stream, each in its own order). The outbox copy wins. Events are identified by event_id; those without one count
// as a multiset: the same event three times in one source and twice in the other happened three times.
//
// An event without a valid timestamp is placed after its predecessor in its own source, or first if it has none.
func Reconcile(outbox, stream []Event) []Merged {
	all := make([]placed, 0, len(outbox)+len(stream))
	unmatched := make(map[string][]int) // key → events of the outbox, in order, that no stream event matched yet
	place := time.Time{}
	for _, e := range outbox {
		key := DedupeKey(e)
		place = placeOf(e, place)
		if e.EventID != "" && len(unmatched[key]) > 0 {
			continue
		}
		unmatched[key] = append(unmatched[key], len(all))
		all = append(all, placed{Merged{SourceOutbox, e}, place})
	}
	shown := make(map[string]bool) // event ids
	place = time.Time{}
	for _, e := range stream {
		key := DedupeKey(e)
		place = placeOf(e, place)
		if e.EventID != "" {
			if shown[key] {
				continue
			}
			shown[key] = true
		}
		if waiting := unmatched[key]; len(waiting) > 0 {
			all[waiting[0]].Source = SourceBoth
			unmatched[key] = waiting[1:]
			continue
		}
		all = append(all, placed{Merged{SourceStream, e}, place})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.at.Compare(b.at) })
	merged := make([]Merged, len(all))
	for i, p := range all {
		merged[i] = p.Merged
	}
	return merged
}

type placed struct {
	Merged
	at time.Time
}

func placeOf(e Event, before time.Time) time.Time {
	if t, err := ParseTime(e.Timestamp); err == nil {
		return t
	}
	return before
}
