package protocol_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// endless repeats a text up to size bytes, without holding them.
func endless(text string, size int64) io.Reader {
	rest := ""
	return io.LimitReader(readerFunc(func(p []byte) (n int, err error) {
		for n < len(p) {
			if rest == "" {
				rest = text
			}
			m := copy(p[n:], rest)
			n, rest = n+m, rest[m:]
		}
		return n, nil
	}), size)
}

// readAllocs reads a stream to its end and returns how many records it gave, and how often and how much was allocated.
func readAllocs(t *testing.T, r io.Reader) (records, allocs, bytes uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var rec protocol.Record
	for s := protocol.NewScanner(r); ; records++ {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return records, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// TestOutputLinesCostNoMemory: however many lines of output a stream has, reading it makes a handful of allocations, those
// of its buffer.
func TestOutputLinesCostNoMemory(t *testing.T) {
	for name, text := range map[string]string{
		"lines":                  string(outputStream(1<<20, 0)),
		"empty lines":            "\n",
		"CRLF":                   "a line of output\r\n",
		"almost the prefix":      "LATTICE_EVENT{\nLATTICE_EVEN\n",
		"bytes that are no text": "\xff\xfe\x00\n",
		"lines at the limit":     strings.Repeat("x", protocol.MaxLine) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			const size = 4 << 20
			records, allocs, total := readAllocs(t, endless(text, size))
			if allocs > 100 || total > 4*protocol.MaxLine {
				t.Errorf("%d lines cost %d allocations of %d bytes together", records, allocs, total)
			}
		})
	}
}

// TestLongLinesCostNoMemory: a line without an end, or one long line after the other, is never held.
func TestLongLinesCostNoMemory(t *testing.T) {
	if _, allocs, total := readAllocs(t, endless("x", 16<<20)); allocs > 100 || total > 4*protocol.MaxLine {
		t.Errorf("one line of 16 MiB costs %d allocations of %d bytes together", allocs, total)
	}
	line := protocol.Prefix + `{"event_type":"INFO","x":"` + strings.Repeat("x", protocol.MaxLine) + "\"}\n"
	records, allocs, total := readAllocs(t, endless(line, int64(8*len(line))))
	if records != 16 || allocs > 500 || total > 4*protocol.MaxLine {
		t.Errorf("8 lines that are too long give %d records, %d allocations of %d bytes together", records, allocs, total)
	}
}

// TestEventsCostWhatTheyHold: an event that keeps the rules costs its text, its names and nothing else, and nothing of
// it stays behind: many of them need no more memory at a time than a few.
func TestEventsCostWhatTheyHold(t *testing.T) {
	for i, event := range benchEvents {
		const n = 2_000
		line := protocol.Prefix + event + "\n"
		records, allocs, total := readAllocs(t, endless(line, n*int64(len(line))))
		if records != n || allocs > 3*n+200 || total > 3*n*uint64(len(line))+4*protocol.MaxLine {
			t.Errorf("event %d costs %.2f allocations and %d bytes for its %d", i, float64(allocs)/n, total/n, len(line))
		}
	}
	line := protocol.Prefix + `{"event_type":"PHASE_STARTED","payload":{"phase":"test"}}` + "\n"
	if held := heldAfter(t, line, 100_000); held > protocol.MaxLine {
		t.Errorf("after 100,000 events the scanner holds %d bytes", held)
	}
}

// heldAfter is what a scanner and the records that it gave hold after it read line n times.
func heldAfter(t *testing.T, line string, n int64) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := protocol.NewScanner(endless(line, n*int64(len(line))))
	var rec protocol.Record
	for {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(s)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// TestHostileEventsAreBounded: what one line can make a reader allocate is a multiple of the line, and a reader keeps none of
// it.
func TestHostileEventsAreBounded(t *testing.T) {
	fill := func(head, piece, tail string) string {
		n := (protocol.MaxLine - len(protocol.Prefix+head+tail)) / len(piece)
		return protocol.Prefix + head + strings.Repeat(piece, n) + tail + "\n"
	}
	for name, tt := range map[string]struct {
		line  string
		times uint64 // bytes allocated for each of the line
	}{
		"brackets":          {protocol.Prefix + strings.Repeat("[", protocol.MaxLine/2) + "\n", 4},
		"members":           {fill(`{"event_type":"INFO","payload":{}`, `,"":0`, "}"), 80},
		"members below":     {fill(`{"event_type":"INFO","payload":{"message":""`, `,"":0`, "}}"), 80},
		"legacy members":    {fill(`{"type":"progress"`, `,"":0`, "}"), 200},
		"no UTF-8":          {fill(`{"event_type":"INFO","payload":{"message":"`, "\xff", `"}}`), 16},
		"escapes":           {fill(`{"event_id":"`, `\u0065`, `","event_type":"INFO","payload":{}}`), 16},
		"expected inputs":   {fill(`{"event_type":"WAITING","payload":{"expected_inputs":{"":0`, `,"":0`, "}}}"), 200},
		"a list of texts":   {fill(`{"event_type":"ENVIRONMENT_PROPOSAL","payload":{"evidence":["x"`, `,""`, "]}}"), 80},
		"nothing but space": {fill(`{"event_type":"INFO",`, ` `, `"payload":{}}`), 4},
	} {
		t.Run(name, func(t *testing.T) {
			if len(tt.line) > protocol.MaxLine+1 {
				t.Fatalf("the line has %d bytes", len(tt.line))
			}
			_, _, total := readAllocs(t, strings.NewReader(tt.line))
			if most := (tt.times + 4) * protocol.MaxLine; total > most {
				t.Errorf("a line of %d bytes costs %d bytes, %d for each", len(tt.line), total, total/uint64(len(tt.line)))
			}
			if held := heldAfter(t, tt.line, 1); held > 8*protocol.MaxLine {
				t.Errorf("after a line of %d bytes the scanner holds %d bytes", len(tt.line), held)
			}
		})
	}
}
