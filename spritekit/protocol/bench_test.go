package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

const benchEvent = `{"protocol_version":"v1","event_type":"INFO","event_id":"01KE0000000000000000000001","call_id":"call_abcdefghijklmnop",` +
	`"sprite_id":"main","work_item_id":"issue-7","timestamp":"2026-01-02T03:04:05.000000006Z",` +
	`"payload":{"message":"Running test suite (75% complete)","kind":"progress","metadata":{"percent":75,"phase":"test"}}}`

// benchStream is about 8 MiB of stdout with one event in so many lines.
func benchStream(every int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < 8<<20; i++ {
		if i%every == 0 {
			b.WriteString(protocol.Prefix + benchEvent + "\n")
		} else {
			b.WriteString("=== RUN   TestSomething/with_a_name_of_usual_length_and_then_a_little_more_text_as_tests_print_it\n")
		}
	}
	return []byte(b.String())
}

func BenchmarkScanner(b *testing.B) {
	for _, bb := range []struct {
		name  string
		every int
	}{{"OutputHeavy", 50}, {"EventsOnly", 1}} {
		stream := benchStream(bb.every)
		b.Run(bb.name+"/Read", func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				drain(b, protocol.NewScanner(bytes.NewReader(stream)))
			}
		})
		b.Run(bb.name+"/ReadAndPrint", func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				var rec protocol.Record
				var line []byte
				var err error
				for s := protocol.NewScanner(bytes.NewReader(stream)); ; {
					if err := s.Read(&rec); errors.Is(err, io.EOF) {
						break
					}
					if line, err = rec.AppendJSON(line[:0]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func drain(b *testing.B, s *protocol.Scanner) {
	var rec protocol.Record
	for {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode compares Decode with the least that encoding/json can do for an event: compact it, and read envelope
// and payload into structs. x-json says how many times faster Decode is.
func BenchmarkDecode(b *testing.B) {
	line := []byte(benchEvent)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, problems, ok := protocol.Decode(line); !ok || len(problems) > 0 {
			b.Fatal("no event")
		}
	}
	ours := b.Elapsed()
	start := time.Now()
	for range b.N {
		var raw bytes.Buffer
		var e protocol.Event
		var p protocol.Info
		if json.Compact(&raw, line) != nil || json.Unmarshal(line, &e) != nil || json.Unmarshal(e.Payload, &p) != nil {
			b.Fatal("not JSON")
		}
	}
	b.ReportMetric(float64(time.Since(start))/float64(ours), "x-json")
}
