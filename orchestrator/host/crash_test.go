package host

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/history"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/storage"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// world is a host on a directory of its own and a client of it.
type world struct {
	*testing.T
	dir    string
	host   *Host
	client *sprites.Client
	server string // its URL
}

// newWorld opens a host; step is called after each durable step.
func newWorld(t *testing.T, dir string, step func(string)) *world {
	t.Helper()
	return newWorldWith(t, core.Config{Dir: dir, Log: zerolog.Nop(), Reserve: -1}, step)
}

func newWorldWith(t *testing.T, cfg core.Config, step func(string)) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Self = self
	dir := cfg.Dir
	h, err := open(cfg, step)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t, dir, h, sprites.New(server.URL, "", server.Client()), server.URL}
}

func (w *world) write(text string) {
	w.Helper()
	if err := w.client.WriteFile(w.Context(), "s", "/workspace/f", strings.NewReader(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

// state is what a person sees of sprite s: its file and the checkpoints, or "none".
func (w *world) state() string {
	w.Helper()
	if _, err := w.client.Get(w.Context(), "s"); errors.Is(err, sprites.ErrNotFound) {
		return "none"
	}
	text, err := w.client.ReadFile(w.Context(), "s", "/workspace/f", 100)
	if err != nil && !errors.Is(err, sprites.ErrNotFound) {
		w.Fatal(err)
	}
	points, err := w.client.Checkpoints(w.Context(), "s")
	if err != nil {
		w.Fatal(err)
	}
	out := string(text)
	for _, p := range points {
		out += " " + p.ID
	}
	return out
}

// check looks for what a crash must not leave: unknown directories, missing trees, broken pages.
func (w *world) check() {
	w.Helper()
	w.host.core.Chores.Wait()
	known := w.layers()
	for _, folder := range []string{"layers", "trees"} {
		entries, err := os.ReadDir(filepath.Join(w.dir, folder))
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range entries {
			if _, is := known[e.Name()]; !is && !w.host.layers.IsSpare(e.Name()) {
				w.Errorf("layer %s is known to nobody", e.Name())
			}
		}
	}
	for id, l := range known {
		if _, err := os.Lstat(w.host.layers.DataDir(l)); err != nil {
			w.Errorf("layer %s is missing: %v", id, err)
		}
	}
	for _, empty := range []string{"tmp", "trash"} {
		if left, err := os.ReadDir(filepath.Join(w.dir, empty)); err != nil || len(left) > 0 {
			w.Errorf("%s holds %v, %v", empty, left, err)
		}
	}
	if audit, err := w.host.Audit(); err != nil || len(audit.Problems) > 0 {
		w.Errorf("host.db: %s, %v", audit.Problems, err)
	}
}

// layers returns the records of all layers, and complains of those whose references are miscounted.
func (w *world) layers() map[string]records.Layer {
	w.Helper()
	counted := map[string]int{}
	for _, folder := range []string{"layers", "trees"} {
		entries, err := os.ReadDir(filepath.Join(w.dir, folder))
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range entries {
			if l, err := w.host.core.Store.Layer(e.Name()); err == nil {
				counted[l.ID] = l.Refs
			} else if !errors.Is(err, records.ErrNoLayer) {
				w.Fatal(err)
			}
		}
	}
	known, _, err := w.host.core.Store.RecountLayers(w.host.Disk())
	if err != nil {
		w.Fatal(err)
	}
	for id, n := range counted {
		if n != known[id].Refs {
			w.Errorf("layer %s has %d references, and %d counted anew", id, n, known[id].Refs)
		}
	}
	return known
}

// TestKilledAtEachStep takes a copy of the host's directory after each durable step of an operation, which is what kill
// -9 would leave there, and opens it: the sprite is as before the operation or as after it.
func TestKilledAtEachStep(t *testing.T) {
	for _, kind := range []layer.Kind{layer.Overlay, layer.Btrfs, layer.CAS} {
		for name, do := range map[string]func(*world) error{
			"checkpoint": func(w *world) error { _, err := w.client.Checkpoint(w.Context(), "s", ""); return err },
			"live":       func(w *world) error { w.whileRunning(w.checkpoint); return nil },
			"restore":    func(w *world) error { return w.client.Restore(w.Context(), "s", "v1") },
			"forget":     func(w *world) error { return w.client.DeleteCheckpoint(w.Context(), "s", "v1") },
			"delete":     func(w *world) error { return w.client.Delete(w.Context(), "s") },
			"create": func(w *world) error {
				_, err := w.client.Create(w.Context(), sprites.Create{Name: "other"})
				return err
			},
			"fork":         func(w *world) error { _, err := w.client.Fork(w.Context(), "s", "v1", "other"); return err },
			"fork present": func(w *world) error { _, err := w.client.Fork(w.Context(), "s", sprites.Current, "other"); return err },
			"fork live": func(w *world) error {
				w.whileRunning(func() string {
					if _, err := w.client.Fork(w.Context(), "s", sprites.Current, "other"); err != nil {
						w.Error(err)
					}
					return ""
				})
				return nil
			},
			"merge": func(w *world) error { return w.mergePresent() },
		} {
			// The other drivers' steps are those of overlays, or there is nothing to merge.
			if kind == layer.Overlay || slices.Contains([]string{"checkpoint", "restore", "fork present", "delete"}, name) {
				t.Run(string(kind)+"/"+name, func(t *testing.T) { killAtEachStep(t, kind, name, do) })
			}
		}
	}
}

func killAtEachStep(t *testing.T, kind layer.Kind, name string, do func(*world) error) {
	copies := tempDir(t)
	var crashes []string
	recording := false
	var w *world
	w = driverWorld(t, kind, func(step string) {
		if !recording {
			return
		}
		if step != "merged" { // it is background work itself
			w.host.core.Chores.Wait() // what goes on in the background has its own steps
		}
		to := filepath.Join(copies, fmt.Sprintf("%d %s", len(crashes), step))
		// The trash may be emptied at the same time; Copy allows for that.
		if err := copyHost(w, to); err != nil {
			t.Errorf("copy after %s: %v", step, err)
		}
		crashes = append(crashes, to)
	})
	w.host.layers.SetSpares(len(name) % 2) // with and without layers that lie ready
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	w.write("one")
	shut := w.shutAway()
	w.checkpoint()
	for range history.KeepAutos { // so that a further restore has an automatic checkpoint to drop
		if name != "restore" {
			break
		}
		if err := w.client.Restore(t.Context(), "s", "v1"); err != nil {
			t.Fatal(err)
		}
	}
	if name == "merge" {
		for range storage.MergeDepth {
			w.write("one")
			w.do("s", "date +%N >/workspace/now")
			w.checkpoint()
		}
	}
	w.write("two")
	before := w.state()
	w.host.core.Chores.Wait()
	recording = true
	err := do(w)
	recording = false
	if err != nil {
		t.Fatal(err)
	}
	after := w.state()
	// A layer that a box shows although nothing else needs it stays until the box has ended.
	for _, s := range w.host.fleet.Running() {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	w.check()
	if len(crashes) < 2 && name != "create" {
		t.Fatalf("only %d steps were seen", len(crashes))
	}
	for _, crash := range crashes {
		t.Run(filepath.Base(crash), func(t *testing.T) {
			again := newWorld(t, crash, func(string) {})
			got := again.state()
			if got != before && got != after {
				t.Errorf("state = %q, want %q or %q", got, before, after)
			}
			if shut && got != "none" {
				if kept, _ := again.sh("s", "sudo cat /srv/shut/f"); kept != "kept" {
					t.Errorf("the file of another user has %q", kept)
				}
			}
			again.check()
		})
	}
}

// shutAway has sprite s hold a file that root of it gave to another of its users, in a folder that no other may enter. It reports
// whether sprites have other users.
func (w *world) shutAway() bool {
	w.Helper()
	if _, code := w.sh("s", "sudo -u '#7' true"); code != 0 {
		return false
	}
	if out, code := w.sh("s", "sudo sh -ec 'mkdir -m 700 /srv/shut; echo kept >/srv/shut/f; chown -R 7:7 /srv/shut' 2>&1"); code != 0 {
		w.Fatal(out)
	}
	return true
}

// copyHost copies the directory of a host as it lies there.
func copyHost(w *world, to string) error {
	return tree.Copy(w.Context(), w.dir, to)
}

// mergePresent merges the layers of sprite s, and takes a checkpoint on top of the merged one.
func (w *world) mergePresent() error {
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		return err
	}
	now, err := w.host.core.Store.Layer(rec.Tree)
	if err != nil {
		return err
	}
	if now.Parent == "" {
		w.Skip("small sprites of an ordinary user are copied, not stacked")
	}
	if err := w.host.merger.Merge(w.Context(), now.Parent); err != nil {
		return err
	}
	w.host.core.Step("merged")
	before, err := w.host.core.Store.Chain(rec.Tree)
	if err != nil {
		return err
	}
	w.checkpoint()
	if rec, err = w.host.core.Store.Sprite("s"); err != nil {
		return err
	}
	after, err := w.host.core.Store.Chain(rec.Tree)
	if len(after) >= len(before) || len(after) > 4 {
		w.Errorf("the sprite stands on %d layers after merging, and stood on %d", len(after), len(before))
	}
	return err
}

func TestMissingTreeIsDegraded(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	ctx := t.Context()
	if _, err := w.client.Create(ctx, sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	w.write("one")
	if _, err := w.client.Checkpoint(ctx, "s", ""); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.host.layers.TreeDir(rec.Tree)); err != nil {
		t.Fatal(err)
	}
	if got, err := w.client.Get(ctx, "s"); err != nil || got.Degraded == "" {
		t.Errorf("Get = %+v, %v, want a degraded sprite", got, err)
	}
	if _, err := w.client.Exec(ctx, "s", sprites.Exec{Cmd: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "degraded") {
		t.Errorf("Exec = %v, want a refusal that says degraded", err)
	}
	if _, err := os.Lstat(w.host.layers.TreeDir(rec.Tree)); err == nil {
		t.Error("the missing tree was made anew")
	}
	if err := w.client.Restore(ctx, "s", "v1"); err != nil {
		t.Fatal(err)
	}
	if got := w.state(); got != "one v1" {
		t.Errorf("state after restore = %q", got)
	}
	w.check()
}

func TestSecondHostIsRefused(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := Open(w.host.core.Config); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second Open = %v", err)
	}
}

func TestFullDiskIs507(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := errors.Join(errors.New("copy"), &os.PathError{Op: "write", Path: "x", Err: errno})
		if got := wire.Classify(err); got.Status != 507 || got.Code != "disk_full" {
			t.Errorf("classify(%v) = %+v", errno, got)
		}
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	d, err := w.host.layers.Driver()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.host.layers.Build(d, "", func(dir string) error {
		if err := os.MkdirAll(filepath.Join(dir, "half"), 0o755); err != nil {
			return err
		}
		return syscall.ENOSPC
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("build = %v", err)
	}
	w.check()
}
