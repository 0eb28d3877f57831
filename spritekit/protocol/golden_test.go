package protocol_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

var update = flag.Bool("update", false, "write the golden files")

// loadFiles reads all files of a pattern. A test without data would pass and prove nothing, so none is a failure.
func loadFiles(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files match %s (error %v)", pattern, err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

// seedEvents are the events of the specification and their relatives, one per line.
func seedEvents(t testing.TB) [][]byte {
	t.Helper()
	var events [][]byte
	for _, b := range loadFiles(t, "testdata/seed-events.jsonl") {
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			events = append(events, bytes.Clone(s.Bytes()))
		}
	}
	if len(events) == 0 {
		t.Fatal("no seed events")
	}
	return events
}

// parse prints the records of r, one per line.
func parse(t testing.TB, s *protocol.Scanner) string {
	t.Helper()
	var b strings.Builder
	for {
		rec, err := s.Next()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := rec.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
}

func TestGoldenStreams(t *testing.T) {
	for name, in := range loadFiles(t, "testdata/streams/*.in") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := parse(t, protocol.NewScanner(bytes.NewReader(in)))
			golden := strings.TrimSuffix(name, ".in") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("records differ from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}
