package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A leader's log is bounded, and never a reason to fail.
func TestLogFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "serve.log")
	log := &LogFile{Path: path, Max: 64}
	line := strings.Repeat("x", 29) + "\n"
	for range 9 {
		if n, err := log.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	for _, p := range []string{path, path + ".1"} {
		if size := fileSize(p); size == 0 || size > 64 {
			t.Errorf("%s has %d bytes", p, size)
		}
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}

	// The directory comes only later: what was written before is lost, and nothing else.
	dir := filepath.Join(t.TempDir(), "logs")
	log = &LogFile{Path: filepath.Join(dir, "serve.log"), Max: 64}
	for range 2 {
		if n, err := log.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("Write without a directory = %d, %v", n, err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Write([]byte("there\n")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(log.Path); err != nil || string(data) != "there\n" {
		t.Errorf("the log holds %q, %v", data, err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
