package reconcile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// mergeInMemory is the definition of a merge, for events that fit in memory: it merges the events of a stream with those of the outbox: each event once, sorted by time, stable (outbox
// before stream, each in its own order). The outbox copy wins. Events are identified by event_id; those without one count
// as a multiset: the same event three times in one source and twice in the other happened three times.
//
// An event without a valid timestamp is placed after its predecessor in its own source, or first if it has none.
func mergeInMemory(outbox, stream []protocol.Event) []Merged {
	all := make([]placed, 0, len(outbox)+len(stream))
	unmatched := make(map[string][]int) // key → events of the outbox, in order, that no stream event matched yet
	place := time.Time{}
	for _, e := range outbox {
		key := protocol.DedupeKey(e)
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
		key := protocol.DedupeKey(e)
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

func placeOf(e protocol.Event, before time.Time) time.Time {
	if t, err := protocol.ParseTime(e.Timestamp); err == nil {
		return t
	}
	return before
}

// ev is "name" for a foreign event, "name#id" for one with an id, "@t" its time in seconds or a text that is none.
func ev(t *testing.T, spec string) protocol.Event {
	t.Helper()
	spec, at, _ := strings.Cut(spec, "@")
	name, id, _ := strings.Cut(spec, "#")
	line := fmt.Sprintf(`{"event_type":"INFO","payload":{"message":%q}`, name)
	if id != "" {
		line += fmt.Sprintf(`,"event_id":%q`, id)
	}
	if len(at) == 2 {
		at = "2026-01-02T03:04:" + at + "Z"
	}
	if at != "" {
		line += fmt.Sprintf(`,"timestamp":%q`, at)
	}
	e, _, ok := protocol.Decode([]byte(line + "}"))
	if !ok {
		t.Fatalf("Decode(%s) refused", line)
	}
	return e
}

func evs(t *testing.T, specs string) []protocol.Event {
	var out []protocol.Event
	for _, spec := range strings.Fields(specs) {
		out = append(out, ev(t, spec))
	}
	return out
}

func show(t *testing.T, merged []Merged) string {
	var out []string
	for _, m := range merged {
		p, err := m.Event.Open()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(m.Source)+":"+p.(protocol.Info).Message)
	}
	return strings.Join(out, " ")
}

func TestMergeInMemory(t *testing.T) {
	tests := []struct{ name, outbox, stream, want string }{
		{"nothing", "", "", ""},
		{"the stream broke off", "a#1@01 b#2@02 c#3@03", "a#1@01", "both:a outbox:b outbox:c"},
		{"the outbox is gone", "", "a#1@01 b#2@02", "stream:a stream:b"},
		{"ids identify, the outbox copy wins", "a#1@01", "x#1@09", "both:a"},
		{"an id twice in one source counts once", "a#1@01 a#1@01", "b#2@02 b#2@02", "outbox:a stream:b"},
		{"an id twice in both", "a#1@01 a#1@01", "a#1@01 a#1@01", "both:a"},
		{"equal content, other ids", "a#1@01 a#2@01", "a#2@01", "outbox:a both:a"},
		{"foreign events are a multiset: the larger count", "a@01 a@01 a@01", "a@01 a@01", "both:a both:a outbox:a"},
		{"the larger count may be the stream's", "a@01", "a@01 a@01", "both:a stream:a"},
		{"the seed's pair alone would lose one", "a@01 b@01", "", "outbox:a outbox:b"},
		{"ascending by instant", "c@03 a@01", "b@02", "outbox:a stream:b outbox:c"},
		{"stable, outbox first", "a@01 b@01", "c@01 b@01", "outbox:a both:b stream:c"},
		{"instants, not texts", "a@2026-01-02T04:00:00+01:00", "a@2026-01-02T03:00:00.0Z b@2026-01-02T02:59:59Z", "stream:b both:a"},
		{"without a time: after its predecessor", "a@01 x b@05", "c@03 y d@04", "outbox:a outbox:x stream:c stream:y stream:d outbox:b"},
		{"an unreadable time likewise", "a@01 x@soon b@05", "", "outbox:a outbox:x outbox:b"},
		{"without a time and predecessor: first", "b@05", "x a@01", "stream:x stream:a outbox:b"},
		{"foreign without a time match by content", "x y", "x x", "both:x outbox:y stream:x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := show(t, mergeInMemory(evs(t, tt.outbox), evs(t, tt.stream)))
			if got != tt.want {
				t.Errorf("mergeInMemory(%s | %s) = %s, want %s", tt.outbox, tt.stream, got, tt.want)
			}
		})
	}
}

func TestMergedJSON(t *testing.T) {
	got := Merged{Source: SourceBoth, Event: ev(t, "a#1")}.AppendJSON(nil)
	want := `{"source":"both","event":{"event_type":"INFO","payload":{"message":"a"},"event_id":"1"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("AppendJSON differs (-want +got):\n%s", diff)
	}
}

// FuzzMerge: no event is lost, none is invented, and reconciling what was already merged changes nothing.
func FuzzMerge(f *testing.F) {
	all, err := os.ReadFile("../../spritekit/protocol/testdata/seed-events.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(all, all)
	streams, err := filepath.Glob("../../spritekit/protocol/testdata/streams/*.in")
	if err != nil || len(streams) == 0 {
		f.Fatalf("no streams to begin with: %v", err)
	}
	for _, name := range streams {
		stream, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(all, bytes.ReplaceAll(stream, []byte("LATTICE_EVENT "), nil))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		outbox, stream := readAll(t, a), readAll(t, b)
		merged := mergeInMemory(outbox, stream)
		want := most(count(outbox), count(stream))
		got := map[string]int{}
		var events []protocol.Event
		for _, m := range merged {
			got[protocol.DedupeKey(m.Event)]++
			events = append(events, m.Event)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("merged %v, want %v", got, want)
		}
		again := mergeInMemory(events, events)
		for i := range again {
			if len(again) != len(events) || again[i].Source != SourceBoth || string(again[i].Event.Raw) != string(events[i].Raw) {
				t.Fatalf("reconciling twice changes event %d", i)
			}
		}
	})
}

func readAll(t *testing.T, b []byte) []protocol.Event {
	var events []protocol.Event
	s := protocol.NewOutboxScanner(bytes.NewReader(b))
	for {
		rec, err := s.Next()
		if err == io.EOF {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == protocol.KindEvent {
			events = append(events, rec.Event)
		}
	}
}

// count counts events by key, those with an id once.
func count(events []protocol.Event) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		if key := protocol.DedupeKey(e); e.EventID == "" || n[key] == 0 {
			n[key]++
		}
	}
	return n
}

func most(a, b map[string]int) map[string]int {
	for key, n := range b {
		a[key] = max(a[key], n)
	}
	return a
}
