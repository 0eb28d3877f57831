package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// hostFile makes a host with sprites, checkpoints and a fork, closed, and returns its directory and the bytes of its host.db.
func hostFile(t *testing.T) (dir string, raw []byte) {
	t.Helper()
	dir = t.TempDir()
	w := newWorld(t, dir, func(string) {})
	for _, name := range []string{"s", "other"} {
		if _, err := w.client.Create(t.Context(), sprites.Create{Name: name, Labels: []string{strings.Repeat("x", 60)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.client.Checkpoint(t.Context(), "s", "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Fork(t.Context(), "s", sprites.Current, "fork"); err != nil {
		t.Fatal(err)
	}
	if a, err := w.host.Audit(); err != nil || len(a.Problems) > 0 || a.Sprites != 3 {
		t.Fatalf("audit of a sound host: %+v, %v", a, err)
	}
	if err := w.host.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "host.db"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, raw
}

// However host.db is damaged, the host is refused or serves in part, and the process lives. What is refused is not written
// to, and an audit finds it.
func TestDamagedHostFiles(t *testing.T) {
	_, whole := hostFile(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "host.db")
	try := func(name string, raw []byte) (found bool) {
		t.Helper()
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := records.AuditDir(dir)
		found = err != nil || len(a.Problems) > 0
		s, err := records.Open(dir, time.Now())
		if err != nil {
			if !errors.Is(err, records.ErrDamaged) {
				t.Errorf("%s: open = %v, want ErrDamaged", name, err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(raw, after) {
				t.Errorf("%s: a refused host.db was written to: %v", name, err)
			}
			if !found {
				t.Errorf("%s: it is refused, and an audit finds nothing", name)
			}
			return true
		}
		_, err = s.Sprites()
		found = found || err != nil
		_, _, err = s.RecountLayers("boot")
		found = found || err != nil
		_ = s.Close()
		return found
	}
	if try("whole", whole) {
		t.Fatal("a sound host.db is found damaged")
	}
	page := os.Getpagesize()
	used := 0
	for n := range len(whole) / page {
		if !bytes.Equal(whole[n*page:(n+1)*page], make([]byte, page)) {
			used = n + 1
		}
	}
	missed := 0
	for n := range used {
		if n > 0 && !try("cut", whole[:n*page]) {
			t.Errorf("nobody notices that the file ends before page %d of %d", n, used)
		}
		for _, at := range []int{0, 8, 10, 12, 16, 20, 24, 28, 40, 100, 200} {
			for _, flip := range []byte{0x01, 0x80} {
				raw := bytes.Clone(whole)
				raw[n*page+at] ^= flip
				if !try("flipped", raw) {
					missed++
				}
			}
		}
	}
	t.Logf("%d of %d flips were in what is not used", missed, used*22)
	for name, raw := range map[string][]byte{
		"text":     bytes.Repeat([]byte("this is no database\n"), 10_000),
		"zeroes":   make([]byte, 16*page),
		"no heads": append(make([]byte, 2*page), whole[2*page:]...),
	} {
		if !try(name, raw) {
			t.Errorf("%s passes for a host.db", name)
		}
	}
}
