package host

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// plainWorld has a host to which namespaces are refused.
func plainWorld(t *testing.T) *world {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.host.confiner.Confined = func() confine.Confinement { return confine.Confinement{Plain: true, Text: "plain process tree (test)"} }
	return w
}

// Without namespaces files keep all promises but those of a view of their own.
func TestFilesPlain(t *testing.T) {
	w := plainWorld(t)
	hc := &http.Client{Transport: &http.Transport{}}
	defer hc.CloseIdleConnections()
	spritestest.RunFiles(t, spritestest.Target{BaseURL: w.server, HTTPClient: hc, Capabilities: []string{"bytes-names", "translated"}})
}

// While the sprite's folder is turned into a link to the host's and back, nothing outside is read or written.
func TestFilesPlainRace(t *testing.T) {
	w := plainWorld(t)
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	outside, work := t.TempDir(), filepath.Join(w.host.layers.TreeDir(rec.Tree), "workspace")
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "f"), []byte("host"), 0o666), os.MkdirAll(filepath.Join(work, "real"), 0o755),
		os.WriteFile(filepath.Join(work, "real", "f"), []byte("sprite"), 0o644), os.Symlink(outside, filepath.Join(work, "link")), os.Symlink("real", filepath.Join(work, "d")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var flipper sync.WaitGroup
	flipper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			next := filepath.Join(work, "next")
			target := "real"
			if i%2 == 0 {
				target = outside
			}
			if err := errors.Join(os.Symlink(target, next), os.Rename(next, filepath.Join(work, "d"))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	reached := 0
	for i := range 200 {
		if got, err := w.client.ReadFile(t.Context(), "s", "/workspace/d/f", 100); err == nil {
			reached++
			if !strings.HasPrefix(string(got), "sprite") {
				t.Errorf("read %q", got)
			}
		}
		_ = w.client.WriteFile(t.Context(), "s", fmt.Sprintf("/workspace/d/%d", i), strings.NewReader("x"), 0o644)
		_, _ = w.client.Files().Copy(t.Context(), "s", "/workspace/d/f", fmt.Sprintf("/workspace/d/copy%d", i), sprites.CopyOptions{})
	}
	close(stop)
	flipper.Wait()
	if reached == 0 {
		t.Error("the race was never won: it proves nothing")
	}
	left, err := os.ReadDir(outside)
	if text, failed := os.ReadFile(filepath.Join(outside, "f")); err != nil || failed != nil || len(left) != 1 || string(text) != "host" {
		t.Errorf("outside are %v, %q, %v", left, text, failed)
	}
}

// Restores while files are read and written neither wait for ever nor show one state's file as another's, and after the
// last one the sprite has what its checkpoint had.
func TestFilesDuringRestore(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	const long = 3 << 20 // more than is read at once
	w.write("kept")
	if err := w.client.WriteFile(t.Context(), "s", "/workspace/big", strings.NewReader(strings.Repeat("k", long)), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := w.client.Checkpoint(t.Context(), "s", "")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := w.client.ReadFile(t.Context(), "s", "/workspace/big", 2*long)
				if err == nil && (len(got) != long || strings.Trim(string(got), string(got[:1])) != "") {
					t.Errorf("read %d bytes of several files", len(got))
				}
				_ = w.client.WriteFile(t.Context(), "s", "/workspace/big", strings.NewReader(strings.Repeat("n", long)), 0o644)
				_, _ = w.client.Files().Tree(t.Context(), "s", "/workspace", "")
			}
		})
	}
	for range 4 {
		if err := w.client.Restore(t.Context(), "s", p.ID); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	callers.Wait()
	if err := w.client.Restore(t.Context(), "s", p.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := w.client.ReadFile(t.Context(), "s", "/workspace/big", 2*long); err != nil || string(got) != strings.Repeat("k", long) {
		t.Errorf("after the restore: %d bytes, %v", len(got), err)
	}
	if list, err := w.client.Files().Tree(t.Context(), "s", "/workspace", ""); err != nil || len(list) != 2 {
		t.Errorf("after the restore: %+v, %v", list, err)
	}
}

// A sprite that is deleted while a file of it is read lets the reader have the rest.
func TestFilesDuringDelete(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("0123456789", 3<<20)
	if err := w.client.WriteFile(t.Context(), "s", "/workspace/f", strings.NewReader(want), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := w.client.ReadFrom(t.Context(), "s", "/workspace/f", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	watch, err := w.client.Files().Watch(t.Context(), "s", []string{"/workspace"}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if err := w.client.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	for err == nil {
		_, err = watch.Next(t.Context())
	}
	if !errors.Is(err, sprites.ErrWatchOver) {
		t.Errorf("the watch ended with %v", err)
	}
	if left, err := os.ReadDir(w.host.core.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left in the host's folder: %v, %v", left, err)
	}
}

// A hundred thousand files are listed, by name and whole.
func TestFilesMany(t *testing.T) {
	if testing.Short() {
		t.Skip("makes very many files")
	}
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	code, err := w.client.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", fmt.Sprintf("mkdir -p /workspace/many; cd /workspace/many; seq -w %d | xargs touch", n)}})
	if err != nil || code != 0 {
		t.Fatal(code, err)
	}
	list, err := w.client.Files().List(t.Context(), "s", "/workspace/many")
	if err != nil || len(list) != n || list[0].Name != "000001" || list[n-1].Name != fmt.Sprintf("%06d", n) {
		t.Fatalf("ListDir = %d, %v", len(list), err)
	}
	if err := w.client.Files().Remove(t.Context(), "s", "/workspace/many", true); err != nil {
		t.Error(err)
	}
}

func BenchmarkReadFile(b *testing.B) {
	for _, size := range []int{100, 1 << 20} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			w := benchWorld(b)
			if err := w.WriteFile(b.Context(), "s", "/workspace/f", strings.NewReader(strings.Repeat("x", size)), 0o644); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				if got, err := w.ReadFile(b.Context(), "s", "/workspace/f", 2<<20); err != nil || len(got) != size {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

func BenchmarkWriteFile(b *testing.B) {
	w := benchWorld(b)
	for b.Loop() {
		if err := w.WriteFile(b.Context(), "s", "/workspace/f", strings.NewReader("text"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// benchWorld is a host with a sprite s whose sandbox runs.
func benchWorld(b *testing.B) *sprites.Client {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	h, err := Open(core.Config{Dir: b.TempDir(), Self: self, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(h.Handler())
	b.Cleanup(func() {
		server.Close()
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	})
	client := sprites.New(server.URL, "", server.Client())
	if _, err := client.Create(b.Context(), sprites.Create{Name: "s"}); err != nil {
		b.Fatal(err)
	}
	return client
}
