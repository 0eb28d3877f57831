package records

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/host/layer"
)

// spritesOf opens a host.db and returns its sprites and their checkpoints.
func spritesOf(t *testing.T, dir string) (map[string]Sprite, map[string][]Checkpoint) {
	t.Helper()
	s, err := Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.RecountLayers("boot"); err != nil {
		t.Fatal(err)
	}
	all, err := s.Sprites()
	sprites, points := map[string]Sprite{}, map[string][]Checkpoint{}
	for _, rec := range all {
		sprites[rec.Name] = rec
		of, pointErr := s.Checkpoints(rec.ID)
		points[rec.Name], err = of, errors.Join(err, pointErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	if a, err := s.Audit(); err != nil || len(a.Problems) > 0 {
		t.Errorf("after the repair: %+v, %v", a, err)
	}
	return sprites, points
}

// TestRepairKeepsSoundRecords damages host.db in many ways. A repaired one opens, is sound, and holds nothing that the whole
// one did not hold, a sprite that was deleted before included; each sprite of the whole one is there or called lost.
func TestRepairKeepsSoundRecords(t *testing.T) {
	dir := filledFile(t)
	s, err := Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, gone := s.DeleteSprite("other", func(string) bool { return false })
	made := s.CreateSprite(Sprite{ID: "sprite-2", Name: "second", Tree: "of-2"}, Layer{ID: "of-2", Driver: layer.CAS})
	if err := errors.Join(gone, made, s.Close()); err != nil {
		t.Fatal(err)
	}
	sprites, points := spritesOf(t, dir)
	whole, err := os.ReadFile(filepath.Join(dir, "host.db"))
	if err != nil {
		t.Fatal(err)
	}
	var damages [][]byte
	damage := func(change func(raw []byte)) {
		raw := bytes.Clone(whole)
		change(raw)
		damages = append(damages, raw)
	}
	editFile(t, filepath.Join(dir, "host.db"), func(tx *bolt.Tx) error {
		return eachValue(tx, func(_ *bolt.Bucket, _ string, k, v []byte) error {
			damage(func(raw []byte) { copy(raw[bytes.LastIndex(raw, append(k, v...)):], []byte("?")) })
			damage(func(raw []byte) {
				for at := bytes.Index(raw, v); at >= 0; at = bytes.Index(raw, v) {
					raw[at+len(v)/2] ^= 1
				}
			})
			return nil
		})
	})
	page := os.Getpagesize()
	end := bytes.LastIndexFunc(whole, func(r rune) bool { return r != 0 })
	random := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < end; at += page {
		damage(func(raw []byte) { clear(raw[at : at+page]) })
		damage(func(raw []byte) { copy(raw[at:at+page], raw[at+page:]) })
		damage(func(raw []byte) { raw[at+random.IntN(page/8)] ^= 1 << random.IntN(8) })
	}
	damage(func(raw []byte) { clear(raw[:2*page]) })
	kept, degraded, incomplete := 0, 0, 0
	for n, raw := range damages {
		dir := t.TempDir()
		for _, id := range []string{"of-s", "of-2", "frozen"} {
			if err := os.MkdirAll(filepath.Join(dir, "layers", id, "d"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "host.db"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := RepairDir(dir, time.Now())
		if err != nil {
			t.Errorf("damage %d: %v", n, err)
			continue
		}
		if out.Aside != "" {
			if was, err := os.ReadFile(filepath.Join(out.Aside, "host.db")); err != nil || !bytes.Equal(was, raw) {
				t.Errorf("damage %d: the damaged file is not kept: %v", n, err)
			}
			for _, id := range []string{"of-s", "of-2", "frozen"} {
				_, here := os.Stat(filepath.Join(dir, "layers", id))
				_, aside := os.Stat(filepath.Join(out.Aside, "layers", id))
				if (here == nil) == (aside == nil) {
					t.Errorf("damage %d: layer %s: %v, %v", n, id, here, aside)
				}
			}
		}
		got, gotPoints := spritesOf(t, dir)
		for name, rec := range got {
			if diff := cmp.Diff(sprites[name], rec); diff != "" {
				t.Errorf("damage %d: sprite %s (-want +got):\n%s", n, name, diff)
			}
			for _, p := range gotPoints[name] {
				if !slices.Contains(points[name], p) {
					t.Errorf("damage %d: sprite %s has a checkpoint %+v", n, name, p)
				}
			}
			kept++
		}
		if len(got)+len(out.Lost) < len(sprites) && !out.Incomplete {
			t.Errorf("damage %d: of %d sprites %d are there and %q are called lost\n%q", n, len(sprites), len(got), out.Lost, out.Problems)
		}
		degraded += len(out.Degraded)
		if out.Incomplete {
			incomplete++
		}
	}
	t.Logf("%d damages: %d of %d sprites kept, %d of them without their present files; %d times pages were lost", len(damages), kept, len(sprites)*len(damages), degraded, incomplete)
}

// A sound host.db is left as it is.
func TestRepairOfASoundFile(t *testing.T) {
	dir := filledFile(t)
	before, err := os.ReadFile(filepath.Join(dir, "host.db"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := RepairDir(dir, time.Now())
	if err != nil || out.Aside != "" || !slices.Equal(out.Sprites, []string{"other", "s"}) {
		t.Errorf("RepairDir = %+v, %v", out, err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "host.db")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed: %v", err)
	}
	s, err := Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := RepairDir(dir, time.Now()); !errors.Is(err, ErrServed) {
		t.Errorf("RepairDir of a file in use = %v, want ErrServed", err)
	}
}
