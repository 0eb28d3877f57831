package protocol_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// outputStream is about size bytes of what a test run prints, lines of 40 to 120 bytes, with one event in every so many
// lines; 0 is none. It is the same each time.
func outputStream(size, every int) []byte {
	const text = "=== RUN   TestSomething/with_a_name_of_usual_length --- PASS: TestSomething (0.03s) ok github.com/example/project/internal/thing"
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := 1; b.Len() < size; i++ {
		if every > 0 && i%every == 0 {
			b.WriteString(protocol.Prefix + benchEvents[0] + "\n")
		} else {
			b.WriteString(text[:40+r.IntN(81)] + "\n")
		}
	}
	return []byte(b.String())
}

// benchEvents are as skills write them, and the last as Python's json.dumps does.
var benchEvents = [...]string{
	`{"protocol_version":"v1","event_type":"INFO","event_id":"01KE0000000000000000000001","call_id":"call_abcdefghijklmnop",` +
		`"sprite_id":"main","work_item_id":"issue-7","timestamp":"2026-01-02T03:04:05.000000006Z",` +
		`"payload":{"message":"Running test suite (75% complete)","kind":"progress","metadata":{"percent":75,"phase":"test"}}}`,
	`{"protocol_version":"v1","event_type":"PHASE_FINISHED","event_id":"01KE0000000000000000000002","call_id":"call_abcdefghijklmnop",` +
		`"sprite_id":"main","work_item_id":"issue-7","timestamp":"2026-01-02T03:04:05.000000007Z",` +
		`"payload":{"phase":"test.run","success":true}}`,
	`{"protocol_version":"v1","event_type":"ARTIFACT","event_id":"01KE0000000000000000000003","call_id":"call_abcdefghijklmnop",` +
		`"sprite_id":"main","work_item_id":"issue-7","timestamp":"2026-01-02T03:04:05.000000008Z",` +
		`"payload":{"kind":"branch","ref":"lattice/fix-7","metadata":{"commits":2,"files":["a.go","b.go"],"note":"two \"small\" changes"}}}`,
	`{"protocol_version": "v1", "event_type": "INFO", "sprite_id": "main", "work_item_id": "issue-7", ` +
		`"timestamp": "2026-01-02T03:04:05.123456+00:00", "payload": {"message": "Installing d\u00e9pendances", "kind": "progress"}}`,
}

// BenchmarkOutputHeavy reads a stream in which one line of 50 is an event, and prints it as "lattice protocol parse"
// does. GB/cpu-s is what the first reads in a second of processor time, whatever else the machine does meanwhile; x-bufio
// compares it with a bufio.Scanner that only splits the lines, in turn within each round.
func BenchmarkOutputHeavy(b *testing.B) {
	stream := outputStream(8<<20, 50)
	b.Run("Read", func(b *testing.B) {
		b.SetBytes(int64(len(stream)))
		b.ReportAllocs()
		var ours, used, bufios time.Duration
		for b.Loop() {
			start, cpu := time.Now(), cpuTime(b)
			drain(b, bytes.NewReader(stream))
			ours += time.Since(start)
			used += cpuTime(b) - cpu
			b.StopTimer()
			start = time.Now()
			for s := bufio.NewScanner(bytes.NewReader(stream)); s.Scan(); {
			}
			bufios += time.Since(start)
			b.StartTimer()
		}
		b.ReportMetric(float64(bufios)/float64(ours), "x-bufio")
		b.ReportMetric(float64(b.N)*float64(len(stream))/float64(used), "GB/cpu-s")
	})
	b.Run("ReadAndPrint", func(b *testing.B) {
		b.SetBytes(int64(len(stream)))
		var rec protocol.Record
		var line []byte
		for b.Loop() {
			for s := protocol.NewScanner(bytes.NewReader(stream)); ; {
				err := s.Read(&rec)
				if errors.Is(err, io.EOF) {
					break
				}
				if line, err = rec.AppendJSON(line[:0]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkEventHeavy reads a stream of events only and compares that with two readers made of encoding/json, in turn
// within each round: x-json is against one that checks the same rules, x-json-unchecked against one that reads
// envelope and payload into structs and checks nothing.
func BenchmarkEventHeavy(b *testing.B) {
	stream := []byte(strings.Repeat(protocol.Prefix+strings.Join(benchEvents[:], "\n"+protocol.Prefix)+"\n", 1000))
	var ours, checked, unchecked time.Duration
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		drain(b, bytes.NewReader(stream))
		ours += time.Since(start)
		b.StopTimer()

		start = time.Now()
		eachEvent(b, stream, func(line []byte) error {
			var o oracle
			err := o.decode(line)
			return errors.Join(err, broken(o.pointers))
		})
		checked += time.Since(start)

		start = time.Now()
		eachEvent(b, stream, func(line []byte) error {
			var raw bytes.Buffer
			var e protocol.Event
			var p protocol.Info
			return errors.Join(json.Compact(&raw, line), json.Unmarshal(line, &e), json.Unmarshal(e.Payload, &p))
		})
		unchecked += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(checked)/float64(ours), "x-json")
	b.ReportMetric(float64(unchecked)/float64(ours), "x-json-unchecked")
}

// cpuTime is the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func drain(b *testing.B, r io.Reader) {
	var rec protocol.Record
	for s := protocol.NewScanner(r); ; {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || len(rec.Problems) > 0 {
			b.Fatal(rec.Problems, err)
		}
	}
}

func broken(pointers []string) error {
	if len(pointers) > 0 {
		return errors.New(strings.Join(pointers, " "))
	}
	return nil
}

// eachEvent is the least that a reader of lines does.
func eachEvent(b *testing.B, stream []byte, decode func([]byte) error) {
	s := bufio.NewScanner(bytes.NewReader(stream))
	s.Buffer(nil, protocol.MaxLine)
	for s.Scan() {
		line, ok := bytes.CutPrefix(s.Bytes(), []byte(protocol.Prefix))
		if !ok {
			continue
		}
		if err := decode(line); err != nil {
			b.Fatalf("%s: %v", line, err)
		}
	}
}

// BenchmarkDecode reads one event, as those do who have one.
func BenchmarkDecode(b *testing.B) {
	line := []byte(benchEvents[0])
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, problems, ok := protocol.Decode(line); !ok || len(problems) > 0 {
			b.Fatal("no event")
		}
	}
}
