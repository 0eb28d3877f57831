package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// FuzzDecodeEncode: whatever is decoded is JSON that decodes to the same again, and encodes to bytes that decode to the
// same event, or is refused.
func FuzzDecodeEncode(f *testing.F) {
	for _, line := range seedEvents(f) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, problems, ok := protocol.Decode(line)
		if !ok {
			return
		}
		if !json.Valid(e.Raw) || !utf8.Valid(e.Raw) {
			t.Fatalf("Raw is no JSON: %q", e.Raw)
		}
		again, _, ok := protocol.Decode(e.Raw)
		if !ok || string(again.Raw) != string(e.Raw) || string(again.Payload) != string(e.Payload) || again.Type != e.Type {
			t.Fatalf("%q decodes to %q, and that to %q", line, e.Raw, again.Raw)
		}
		if _, err := e.Open(); err == nil && !e.Type.Known() || err != nil && len(problems) == 0 && e.Type.Known() {
			t.Fatalf("%q: Open gives %v, but the problems are %v", e.Raw, err, problems)
		}
		out, err := protocol.Encode(e)
		if err != nil {
			return
		}
		back, problems, ok := protocol.Decode(out)
		if !ok || len(problems) > 0 || protocol.DedupeKey(back) != protocol.DedupeKey(e) {
			t.Fatalf("%q encodes to %q: ok %v, problems %v", e.Raw, out, ok, problems)
		}
		if twice, err := protocol.Encode(back); err != nil || !bytes.Equal(twice, out) {
			t.Fatalf("%q encodes again to %q, %v", out, twice, err)
		}
	})
}

// FuzzScanner: how the stream is cut into reads changes nothing, and every line gives its record.
func FuzzScanner(f *testing.F) {
	for _, stream := range loadFiles(f, "testdata/streams/*.in") {
		f.Add(stream, uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8) {
		whole := parse(t, protocol.NewScanner(bytes.NewReader(stream)))
		split := parse(t, protocol.NewScanner(&chunks{stream, int(chunk) + 1}))
		if whole != split {
			t.Fatalf("read whole: %s\nread by %d: %s", whole, int(chunk)+1, split)
		}
		lines := bytes.Count(stream, []byte("\n"))
		if len(stream) > 0 && stream[len(stream)-1] != '\n' {
			lines++
		}
		records := bytes.Count([]byte(whole), []byte("\n")) - bytes.Count([]byte(whole), []byte("\n{\"kind\":\"warning\""))
		if records != lines {
			t.Fatalf("%d lines gave %d records: %s", lines, records, whole)
		}
		for line := range bytes.Lines([]byte(whole)) {
			if !json.Valid(line) {
				t.Fatalf("a record is no JSON: %q", line)
			}
		}
	})
}

type chunks struct {
	rest []byte
	n    int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// FuzzCanonical: the canonical form is its own canonical form and means the same to encoding/json.
func FuzzCanonical(f *testing.F) {
	for _, line := range seedEvents(f) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := protocol.Canonical(raw)
		if err != nil {
			if utf8.Valid(raw) && json.Valid(raw) && bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) < protocol.MaxDepth {
				t.Fatalf("%q is JSON, but: %v", raw, err)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("Canonical(%q) = %q is no JSON", raw, got)
		}
		if again, err := protocol.Canonical(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("Canonical(%q) = %q, %v", got, again, err)
		}
		if utf8.Valid(raw) && meaning(raw) != meaning(got) {
			t.Fatalf("Canonical(%q) = %q means something else", raw, got)
		}
	})
}

func meaning(raw []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%#v", v)
}

// FuzzDecodeResult: a result that is accepted survives being written and read again.
func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte(`{"ok":true,"skill":"fs.read","data":{"n":1.0},"warnings":[{"code":"c","message":"m"}],"events":2}`))
	f.Add([]byte(`{"ok":false,"skill":"x","error":{"code":"c","message":"m","details":{"a":1}}}`))
	f.Add([]byte(`{"ok":true,"skill":"x","waiting":{"reason":"r","checkpoint_id":"v1","expected_inputs":{"a":"map"}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, ok := protocol.DecodeResult(line)
		if !ok {
			return
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := protocol.DecodeResult(out); !ok {
			t.Fatalf("%q was accepted, but as %s it is not", line, out)
		}
	})
}
