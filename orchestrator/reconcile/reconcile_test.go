package reconcile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// events makes n events of few different ids, contents and times, so that everything that can meet does.
func events(t *testing.T, r *rand.Rand, n int) []protocol.Event {
	t.Helper()
	var all []protocol.Event
	for range n {
		line := fmt.Sprintf(`{"event_type":"INFO","payload":{"message":"%d","pad":%q}`, r.IntN(4), strings.Repeat("x", r.IntN(40)/39*r.IntN(900)))
		if r.IntN(2) == 0 {
			line += fmt.Sprintf(`,"event_id":"%d"`, r.IntN(n+1))
		}
		switch r.IntN(4) {
		case 0: // none
		case 1:
			line += `,"timestamp":"soon"`
		default:
			line += fmt.Sprintf(`,"timestamp":"%04d-01-02T03:04:05.%dZ"`, r.IntN(2)*2026, r.IntN(5))
		}
		e, _, ok := protocol.Decode([]byte(line + "}"))
		if !ok {
			t.Fatalf("no event: %s", line)
		}
		all = append(all, e)
	}
	return all
}

func merge(m *Merger, outbox, stream []protocol.Event) (string, error) {
	for _, e := range outbox {
		if err := m.AddOutbox(e); err != nil {
			return "", err
		}
	}
	for _, e := range stream {
		if err := m.AddStream(e); err != nil {
			return "", err
		}
	}
	var out []byte
	err := m.Each(func(e Merged) error {
		out = append(e.AppendJSON(out), '\n')
		return nil
	})
	return string(out), err
}

// TestMergerIsReconcile: whatever fits in memory and whatever does not, the answer is that of mergeInMemory, and no
// file is left.
func TestMergerIsReconcile(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	tmp := t.TempDir()
	for round := range 100 {
		outbox, stream := events(t, r, r.IntN(60)), events(t, r, r.IntN(60))
		for range r.IntN(20) {
			if len(outbox) > 0 {
				stream = append(stream, outbox[r.IntN(len(outbox))])
			}
		}
		var want []byte
		for _, m := range mergeInMemory(outbox, stream) {
			want = append(m.AppendJSON(want), '\n')
		}
		for _, limits := range [][2]int{{spoolMemory, sortMemory}, {1, 1}, {1000, 3}, {100, 50}} {
			m := newMerger(tmp, limits[0], limits[1])
			got, err := merge(m, outbox, stream)
			if err := errors.Join(err, m.Close()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Fatalf("round %d with limits %v differs from mergeInMemory (-want +got):\n%s", round, limits, diff)
			}
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

func TestEntriesSurviveTheirFile(t *testing.T) {
	want := entry{key: [16]byte{1, 2, 255}, index: 1 << 40, sec: -62135596800, nsec: 999999999, size: 1 << 20, at: 1 << 50, seen: inStream, hasID: true}
	b := want.append(nil)
	if got := readEntry(b); len(b) != entrySize || got != want {
		t.Errorf("%d bytes hold %+v, want %d that hold %+v", len(b), got, entrySize, want)
	}
}

// TestNoRoomForTemporaryFiles: what cannot be put aside is an error that says where it should have gone.
func TestNoRoomForTemporaryFiles(t *testing.T) {
	m := newMerger(t.TempDir()+"/none", 1, 1)
	_, err := merge(m, events(t, rand.New(rand.NewPCG(1, 1)), 9), nil)
	if err == nil || !strings.Contains(err.Error(), "temporary file") {
		t.Errorf("without a folder for temporary files: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestMemoryIsBounded: what the merger holds does not grow with the number of events.
func TestMemoryIsBounded(t *testing.T) {
	held := func(n int) int64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := newMerger(t.TempDir(), 1<<20, 4<<10)
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		for i := range n {
			e := protocol.Event{EventID: strconv.Itoa(i), Timestamp: protocol.FormatTime(start.Add(time.Duration(i % 1000))), Raw: make([]byte, 300)}
			if err := errors.Join(m.AddOutbox(e), m.AddStream(e)); err != nil {
				t.Fatal(err)
			}
		}
		merged := 0
		if err := m.Each(func(Merged) error { merged++; return nil }); err != nil || merged != n {
			t.Fatalf("%d events, %v, want %d", merged, err, n)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		return int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	few, many := held(20_000), held(60_000)
	if many > few+few/4+1<<20 {
		t.Errorf("60,000 events hold %d bytes, 20,000 hold %d", many, few)
	}
}

// TestEachStops: an error of the caller ends the reading and comes back as it is.
func TestEachStops(t *testing.T) {
	m := New(t.TempDir())
	defer m.Close()
	for _, e := range events(t, rand.New(rand.NewPCG(1, 1)), 9) {
		if err := m.AddOutbox(e); err != nil {
			t.Fatal(err)
		}
	}
	stop, calls := errors.New("stop"), 0
	err := m.Each(func(Merged) error { calls++; return stop })
	if err != stop || calls != 1 {
		t.Errorf("Each = %v after %d calls, want %v after one", err, calls, stop)
	}
}

func TestSpoolReadsInAnyOrder(t *testing.T) {
	for _, limit := range []int{0, 1 << 30} {
		s := spool{tmp: t.TempDir(), limit: limit}
		r := rand.New(rand.NewPCG(3, 3))
		var want [][]byte
		var places []int64
		for i := range 500 {
			b := bytes.Repeat([]byte{byte(i)}, r.IntN(3000))
			at, err := s.add(b)
			if err != nil {
				t.Fatal(err)
			}
			want, places = append(want, b), append(places, at)
		}
		for i := range 2000 {
			if i >= len(want) {
				i = r.IntN(len(want))
			}
			if got, err := s.read(places[i], len(want[i])); err != nil || !bytes.Equal(got, want[i]) {
				t.Fatalf("limit %d: piece %d reads as %d bytes, %v", limit, i, len(got), err)
			}
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}
