package protocol_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spritekit/lattice/spritekit/protocol"
)

const goodLine = `LATTICE_EVENT {"event_type":"INFO","payload":{"message":"m"}}`

// TestFramingNeverMatters reads each golden stream as the network might deliver it.
func TestFramingNeverMatters(t *testing.T) {
	for name, in := range loadFiles(t, "testdata/streams/*.in") {
		want := parse(t, protocol.NewScanner(bytes.NewReader(in)))
		for how, r := range map[string]io.Reader{
			"byte by byte":        iotest.OneByteReader(bytes.NewReader(in)),
			"halves":              iotest.HalfReader(bytes.NewReader(in)),
			"data with the error": iotest.DataErrReader(bytes.NewReader(in)),
			"with empty reads":    &stutter{r: bytes.NewReader(in)},
		} {
			if got := parse(t, protocol.NewScanner(r)); got != want {
				t.Errorf("%s read %s gives other records:\n%s", name, how, got)
			}
		}
	}
}

// stutter returns nothing on every second read.
type stutter struct {
	r   io.Reader
	odd bool
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.odd = !s.odd; s.odd {
		return 0, nil
	}
	return s.r.Read(p[:min(len(p), 7)])
}

// TestBadPrefixedLine fixes the order: the output, byte for byte, then its one warning, then the neighbours unharmed.
func TestBadPrefixedLine(t *testing.T) {
	const bad = `LATTICE_EVENT {"event_type": "INFO", <&> oops`
	got := parse(t, protocol.NewScanner(strings.NewReader(goodLine+"\n"+bad+"\n"+goodLine)))
	const event = `{"kind":"event","event":{"event_type":"INFO","payload":{"message":"m"}},"legacy":false,"problems":[]}` + "\n"
	want := event +
		`{"kind":"output","text":"LATTICE_EVENT {\"event_type\": \"INFO\", <&> oops"}` + "\n" +
		`{"kind":"warning","code":"no_event","line":2,"detail":"not readable as JSON: byte 23: expected the name of a member"}` + "\n" +
		event
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestPrefixCountsAtTheStart: an event begins a line, so that no text that mentions one becomes one. A line that two
// writers joined is output as it stands (the outbox has its events), and its neighbours are unharmed.
func TestPrefixCountsAtTheStart(t *testing.T) {
	for name, line := range map[string]string{
		"two events":     goodLine + goodLine,
		"unended output": "50%" + goodLine,
		"indented":       " " + goodLine,
		"quoted":         `{"text":"LATTICE_EVENT {\"event_type\":\"INFO\"}"}`,
	} {
		s := protocol.NewScanner(strings.NewReader(goodLine + "\n" + line + "\n" + goodLine))
		wantEvent(t, s)
		wantOutput(t, s, line)
		if strings.HasPrefix(line, protocol.Prefix) {
			if rec, err := s.Next(); err != nil || rec.Code != protocol.WarnNoEvent || rec.Line != 2 {
				t.Errorf("%s: got %+v, %v, want the warning", name, rec, err)
			}
		}
		wantEvent(t, s)
	}
}

// TestLongLines fixes what a line around the limit gives: at the limit it is whole, above it is cut at a rune, and the
// warning comes when it has ended. An event that is too long is output too.
func TestLongLines(t *testing.T) {
	const limit = protocol.MaxLine
	long := func(n int) string { return strings.Repeat("x", n) }
	eventLine := func(n int) string {
		head, tail := `LATTICE_EVENT {"event_type":"INFO","payload":{"message":"`, `"}}`
		return head + long(n-len(head)-len(tail)) + tail
	}
	tests := []struct {
		name, line, end string
		kept            int // bytes of output; -1 when the line is an event
		cut             bool
	}{
		{"at the limit", long(limit), "\n", limit, false},
		{"at the limit, CRLF", long(limit), "\r\n", limit, false},
		{"at the limit, end of stream", long(limit), "", limit, false},
		{"one above", long(limit + 1), "\n", limit, true},
		{"one above, CRLF", long(limit + 1), "\r\n", limit, true},
		{"one above, end of stream", long(limit + 1), "", limit, true},
		{"a CR that ends no line", long(limit) + "\r", "", limit, true},
		{"two above", long(limit + 2), "\n", limit, true},
		{"far above", long(5*limit + 3), "\n", limit, true},
		{"far above, CRLF", long(5*limit + 3), "\r\n", limit, true},
		{"far above, CR inside", long(limit+9) + "\r" + long(2*limit) + "\r", "\r\n", limit, true},
		{"cut inside a rune", long(limit-1) + "€€", "\n", limit - 1, true},
		{"cut inside a rune of four bytes", long(limit-3) + "😀", "\n", limit - 3, true},
		{"event at the limit", eventLine(limit), "\n", -1, false},
		{"event above the limit", eventLine(limit + 1), "\n", limit, true},
	}
	for _, tt := range tests {
		for _, before := range []string{"", "before\n"} {
			after := ""
			if tt.end != "" {
				after = goodLine + "\n"
			}
			t.Run(tt.name+" "+strings.TrimSpace(before), func(t *testing.T) {
				s := protocol.NewScanner(strings.NewReader(before + tt.line + tt.end + after))
				line := 1
				if before != "" {
					wantOutput(t, s, "before")
					line++
				}
				switch {
				case tt.kept < 0:
					wantEvent(t, s)
				default:
					wantOutput(t, s, tt.line[:tt.kept])
				}
				if tt.cut {
					rec, err := s.Next()
					want := protocol.Cut{Offset: int64(len(before)), Size: int64(len(tt.line)), SHA256: sha(tt.line)}
					if err != nil || rec.Code != protocol.WarnLineCut || rec.Line != line || rec.Cut == nil || *rec.Cut != want {
						t.Errorf("warning is %+v (cut %+v), %v, want line %d, %+v", rec, rec.Cut, err, line, want)
					}
				}
				if after != "" {
					wantEvent(t, s)
				}
				if rec, err := s.Next(); !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %+v, %v", rec, err)
				}
			})
		}
	}
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func wantOutput(t *testing.T, s *protocol.Scanner, text string) {
	t.Helper()
	rec, err := s.Next()
	if err != nil || rec.Kind != protocol.KindOutput || rec.Text != text {
		t.Fatalf("got a record of kind %q with %d bytes of text, %v; want %d bytes of output", rec.Kind, len(rec.Text), err, len(text))
	}
}

func wantEvent(t *testing.T, s *protocol.Scanner) {
	t.Helper()
	rec, err := s.Next()
	if err != nil || rec.Kind != protocol.KindEvent || len(rec.Problems) > 0 {
		t.Fatalf("got a record of kind %q, problems %v, %v; want an event", rec.Kind, rec.Problems, err)
	}
}

// TestScannerIsLive: a record comes out when its line is complete, though the stream goes on and is silent.
func TestScannerIsLive(t *testing.T) {
	in, out := io.Pipe()
	s := protocol.NewScanner(in)
	lines := make(chan string)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for line := range lines {
			io.WriteString(out, line)
		}
		out.Close()
	}()
	lines <- "one\ntwo"
	wantOutput(t, s, "one")
	lines <- "\n" + goodLine + "\r"
	wantOutput(t, s, "two")
	lines <- "\n"
	wantEvent(t, s)
	lines <- "LATTICE_EVENT oops\n"
	wantOutput(t, s, "LATTICE_EVENT oops")
	if rec, err := s.Next(); err != nil || rec.Code != protocol.WarnNoEvent {
		t.Errorf("got %+v, %v, want the warning without further input", rec, err)
	}
	close(lines)
	if _, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	<-written
}

// TestReadErrorComesLast: what arrived before the connection broke is delivered first, then the error, again and again.
func TestReadErrorComesLast(t *testing.T) {
	broken := errors.New("connection reset")
	for _, head := range []string{"", strings.Repeat("x", protocol.MaxLine+1) + "\n"} {
		s := protocol.NewScanner(io.MultiReader(strings.NewReader(head+goodLine+"\ntorn"), iotest.ErrReader(broken)))
		if head != "" {
			wantOutput(t, s, head[:protocol.MaxLine])
			if rec, err := s.Next(); err != nil || rec.Code != protocol.WarnLineCut {
				t.Errorf("got %+v, %v", rec, err)
			}
		}
		wantEvent(t, s)
		wantOutput(t, s, "torn")
		for range 2 {
			if _, err := s.Next(); !errors.Is(err, broken) {
				t.Errorf("Next = %v, want %v", err, broken)
			}
		}
	}
	silent := protocol.NewScanner(readerFunc(func([]byte) (int, error) { return 0, nil }))
	if _, err := silent.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader without progress: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestScannerMemoryIsBounded feeds one endless line: the scanner holds no more than its window.
func TestScannerMemoryIsBounded(t *testing.T) {
	largest := 0
	s := protocol.NewScanner(io.LimitReader(readerFunc(func(p []byte) (int, error) {
		largest = max(largest, len(p))
		for i := range p {
			p[i] = 'x'
		}
		return len(p), nil
	}), 64<<20))
	wantOutput(t, s, strings.Repeat("x", protocol.MaxLine))
	rec, err := s.Next()
	if err != nil || rec.Cut == nil || rec.Cut.Size != 64<<20 {
		t.Errorf("got %+v, %v", rec, err)
	}
	if largest > 2*protocol.MaxLine {
		t.Errorf("one read asked for %d bytes", largest)
	}
}

func TestOutboxScanner(t *testing.T) {
	in := "\n{\"event_type\":\"INFO\",\"payload\":{\"message\":\"m\"}}\r\n  \nLATTICE_EVENT {}\n{\"event_type\":\"INFO\",\"pay"
	got := parse(t, protocol.NewOutboxScanner(strings.NewReader(in)))
	want := `{"kind":"event","event":{"event_type":"INFO","payload":{"message":"m"}},"legacy":false,"problems":[]}
{"kind":"output","text":"LATTICE_EVENT {}"}
{"kind":"warning","code":"no_event","line":4,"detail":"not readable as JSON: byte 0: expected a value"}
{"kind":"output","text":"{\"event_type\":\"INFO\",\"pay"}
{"kind":"warning","code":"no_event","line":5,"detail":"not readable as JSON: byte 25: a string does not end"}
`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestReadLendsBytes(t *testing.T) {
	s := protocol.NewScanner(strings.NewReader("a\xff\n\n" + goodLine + "\n"))
	var rec protocol.Record
	for _, want := range []string{"a\xff", ""} {
		if err := s.Read(&rec); err != nil || rec.Bytes == nil || string(rec.Bytes) != want || rec.Text != "" {
			t.Errorf("Read = %+v, %v, want bytes %q", rec, err, want)
		}
	}
	if err := s.Read(&rec); err != nil || rec.Kind != protocol.KindEvent || rec.Bytes != nil {
		t.Errorf("Read = %+v, %v, want an event", rec, err)
	}
}

func TestAppendJSONRefusesUnknownKinds(t *testing.T) {
	if got, err := (protocol.Record{}).AppendJSON(nil); err == nil {
		t.Errorf("AppendJSON of no kind = %s", got)
	}
	for kind, want := range map[protocol.Kind]string{
		protocol.KindOutput:  `{"kind":"output","text":""}`,
		protocol.KindWarning: `{"kind":"warning","code":"","line":0,"detail":""}`,
	} {
		if got, err := (protocol.Record{Kind: kind}).AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("AppendJSON = %s, %v, want %s", got, err, want)
		}
	}
}

func ExampleScanner() {
	s := protocol.NewScanner(strings.NewReader("hello\nLATTICE_EVENT {\"type\":\"blocked\",\"reason\":\"no key\"}\n"))
	for {
		rec, err := s.Next()
		if err != nil {
			break
		}
		line, _ := rec.AppendJSON(nil)
		fmt.Println(string(line))
	}
	// Output:
	// {"kind":"output","text":"hello"}
	// {"kind":"event","event":{"event_type":"INFO","payload":{"message":"no key","kind":"blocked"}},"legacy":true,"problems":[]}
}
