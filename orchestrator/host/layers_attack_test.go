package host

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Attacker: a sprite plants what overlays mark their layers with, so that after a checkpoint it might see folders of other
// layers, hide what it did, or make the host read or write elsewhere. None of it means anything: what it can plant is shown,
// compared and copied as what it is.
func TestPlantedMarks(t *testing.T) {
	const attack = `
mkdir -p d/sub lower; echo secret >lower/f; echo kept >d/sub/f
for prefix in user.overlay trusted.overlay user.overlay.overlay; do
  for mark in "opaque y" "redirect /lower" "redirect ../../../base" "metacopy x" "origin x" "whiteout y" "impure y" "nlink U+9" "upper x"; do
    set -- $mark
    setfattr -n $prefix.$1 -v "$2" d 2>/dev/null || true
    setfattr -n $prefix.$1 -v "$2" d/sub/f 2>/dev/null || true
  done
done
python3 - <<'PY' 2>/dev/null || true
import os, stat
for name in ("d/none", "device"):
    try: os.mknod(name, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    except OSError: pass
PY
mknod d/whiteout c 0 0 2>/dev/null || true
touch d/.wh.f d/.wh..wh..opq
mkdir -p work/index index; touch index/00fb21000081
`
	const seen = `ls -a . d d/sub lower; cat d/sub/f lower/f; find . -type c | sort`
	for _, kind := range []layer.Kind{layer.Overlay, layer.Btrfs, layer.CAS} {
		t.Run(string(kind), func(t *testing.T) {
			w := driverWorld(t, kind, func(string) {})
			if w.host.confiner.Confined().Plain {
				t.Skip("without namespaces a sprite is not kept apart")
			}
			if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
				t.Fatal(err)
			}
			w.do("s", "echo below >base-file; mkdir d; echo below >d/below")
			w.checkpoint()
			w.do("s", attack)
			want := w.do("s", seen)
			for _, take := range []func() string{w.checkpoint, func() string { return w.whileRunning(w.checkpoint) }} {
				id := take()
				if got := w.do("s", seen); got != want {
					t.Errorf("after a checkpoint the sprite sees\n%s\nand saw\n%s", got, want)
				}
				if err := w.client.Restore(t.Context(), "s", id); err != nil {
					t.Fatal(err)
				}
				if got := w.do("s", seen); got != want {
					t.Errorf("after a restore the sprite sees\n%s\nand saw\n%s", got, want)
				}
			}
			if out := w.do("s", "cat d/below base-file"); out != "below\nbelow\n" {
				t.Errorf("files of the layer below: %q", out)
			}
			changes, err := w.client.Diff(t.Context(), "s", "v1", "")
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, c := range changes {
				paths = append(paths, c.Path)
				if !strings.HasPrefix(c.Path, "/workspace") && !strings.HasPrefix(c.Path, "/home/sprite") && !strings.HasPrefix(c.Path, "/tmp") {
					t.Errorf("the comparison names %s, which the sprite did not touch", c.Path)
				}
			}
			for _, path := range []string{"/workspace/d/sub/f", "/workspace/lower/f", "/workspace/d/.wh.f", "/workspace/index/00fb21000081"} {
				if !strings.Contains(strings.Join(paths, "\n")+"\n", path+"\n") {
					t.Errorf("the comparison hides %s:\n%s", path, strings.Join(paths, "\n"))
				}
			}
			if v, err := w.client.Verify(t.Context(), "s", "v1"); err != nil || !v.OK {
				t.Errorf("Verify = %+v, %v", v, err)
			}
			w.check()
		})
	}
}
