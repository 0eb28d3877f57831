package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// driverWorld is a host that keeps sprites with the given driver. It skips where the driver cannot be had.
func driverWorld(t *testing.T, kind layer.Kind, step func(string)) *world {
	t.Helper()
	dir := ""
	if kind == layer.Btrfs {
		dir = mountBtrfs(t)
	} else {
		dir = tempDir(t)
	}
	w := newWorldWith(t, core.Config{Dir: dir, Log: zerolog.Nop(), Reserve: -1, Storage: kind}, step)
	if w.host.confiner.Confined().Plain && kind != layer.CAS {
		t.Skipf("%s is for sandboxes with namespaces: %s", kind, w.host.Mode())
	}
	return w
}

// tempDir is a folder that goes with all that sprites shut in it.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lattice-layers-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// mountBtrfs mounts a small btrfs from a file.
func mountBtrfs(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root mounts a btrfs")
	}
	mkfs, err := exec.LookPath("mkfs.btrfs")
	if err != nil {
		t.Skip(err)
	}
	image, dir := filepath.Join(t.TempDir(), "btrfs.img"), t.TempDir()
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(512<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), mkfs, "-q", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.btrfs: %v: %s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// do runs a script in a sprite and returns what it prints; it must succeed.
func (w *world) do(name, script string) string {
	w.Helper()
	var out strings.Builder
	code, err := w.client.Exec(w.Context(), name, sprites.Exec{Cmd: []string{"sh", "-ec", script}, Stdout: &out, Stderr: &out, Dir: "/workspace"})
	if err != nil || code != 0 {
		w.Fatalf("%s: exit %d, %v\n%s", script, code, err, out.String())
	}
	return out.String()
}

func (w *world) checkpoint() string {
	w.Helper()
	p, err := w.client.Checkpoint(w.Context(), "s", "")
	if err != nil {
		w.Fatal(err)
	}
	return p.ID
}

// plantFiles fills /workspace with all kinds of files; change makes of each what overlays find hardest, and listFiles prints all
// that a program can see of them.
const (
	plantFiles = `
umask 022
mkdir -p d/sub/deep empty replaced opaque/old "$(printf 'b\377y\ntes')" many
echo one >d/f; ln d/f d/g; ln d/f h; echo s >d/sub/s; echo deep >d/sub/deep/x; ln -s d/f link; ln -s /nowhere dangling
mkfifo fifo; mkfifo -m 600 d/fifo2
printf x >sparse; truncate -s 50M sparse; printf y | dd of=sparse bs=1 seek=30000000 conv=notrunc 2>/dev/null
cp /bin/true suid; chmod 6755 suid; mkdir -m 2775 setgid; mkdir -m 1777 sticky; echo locked >locked; chmod 000 locked
echo t >/tmp/t; echo h >~/h; echo r >replaced/f; echo o >opaque/old/f; echo w >written; echo gone >gone; mkdir shut; echo in >shut/in; chmod 500 shut
i=0; while [ $i -lt 60 ]; do echo $i >many/$i; i=$((i+1)); done
touch -d '2001-02-03 04:05:06.123456789' written; touch -d '1999-12-31 23:59:59.987654321' d
setfattr -n user.color -v blue written 2>/dev/null || true
`
	changeFiles = `
echo more >>d/g; rm gone; rm -r replaced; echo file >replaced; rm -r opaque; mkdir opaque; echo new >opaque/new
mv d moved; mkdir d; echo fresh >d/fresh; chmod 600 written; rm link; ln -s moved/f link; rm fifo; mkfifo fifo
printf z | dd of=sparse bs=1 seek=40000000 conv=notrunc 2>/dev/null; rm suid; cp /bin/false suid; chmod 4755 suid; rmdir empty; mkdir empty; mkdir empty/2
rm /tmp/t; mkdir /tmp/t; mv many/7 many/seven; rm many/8; ln moved/g linked; mv moved/sub sub
`
	listFiles = `
cd /; find workspace tmp home -xdev -printf '%P|%y|%m|%u:%g|%l|' \( -type f -printf '%s|%T@|%n' -o -type d -o -printf '%T@' \) -printf '\0\n' | LC_ALL=C sort | grep -av '/\.cache\|^\.cache'
find workspace tmp home -xdev -type f -perm -400 -exec sha256sum {} + | LC_ALL=C sort
getfattr -d workspace/written workspace/moved 2>/dev/null || true
stat -c '%n %Y %y' workspace/d 2>/dev/null; du -k workspace/sparse | awk '{ print ($1 < 2000) ? "sparse" : "filled" }'
`
)

func TestWhatSurvives(t *testing.T) {
	for _, kind := range []layer.Kind{layer.Overlay, layer.Btrfs, layer.CAS} {
		t.Run(string(kind), func(t *testing.T) {
			w := driverWorld(t, kind, func(string) {})
			if w.host.confiner.Confined().Plain {
				t.Skip("without namespaces paths are translated, and the listing is of the host's folders")
			}
			if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
				t.Fatal(err)
			}
			var seen []string
			var points []string
			for i, script := range []string{plantFiles, changeFiles, "echo last >>moved/f; rm -r sub; mv moved again; touch again/f", "mv again d2; ln d2/g l2; echo x >>l2; echo y >>linked"} {
				w.do("s", script)
				seen = append(seen, w.do("s", listFiles))
				if i == 1 {
					// Held by a process that runs: copied instead of stacked upon, or by a snapshot.
					points = append(points, w.whileRunning(func() string { return w.checkpoint() }))
				} else {
					points = append(points, w.checkpoint())
				}
				if diff := cmp.Diff(seen[i], w.do("s", listFiles)); diff != "" {
					t.Errorf("a checkpoint changed what the sprite sees (-before +after):\n%s", diff)
				}
			}
			for i, id := range points {
				if err := w.client.Restore(t.Context(), "s", id); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(seen[i], w.do("s", listFiles)); diff != "" {
					t.Errorf("restored to %s (-want +got):\n%s", id, diff)
				}
				if _, err := w.client.Fork(t.Context(), "s", id, "fork-"+id); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(seen[i], w.do("fork-"+id, listFiles)); diff != "" {
					t.Errorf("forked at %s (-want +got):\n%s", id, diff)
				}
				// What the fork does is nobody else's.
				w.do("fork-"+id, "chmod u+w shut; rm -rf ./*; echo f >/tmp/only")
			}
			for _, id := range points {
				if v, err := w.client.Verify(t.Context(), "s", id); err != nil || !v.OK {
					t.Errorf("Verify(%s) = %+v, %v", id, v, err)
				}
			}
			w.check()
		})
	}
}

// whileRunning calls do while a process of the sprite writes.
func (w *world) whileRunning(do func() string) string {
	w.Helper()
	// It has let go of the command's output when this returns: who is held still before that keeps the session open.
	w.do("s", "mkdir -p /dev/shm; rm -f /dev/shm/busy; (while :; do echo x >/dev/shm/busy; sleep 0.05; done) >/dev/null 2>&1 & "+
		"until test -s /dev/shm/busy; do sleep 0.01; done")
	got := do()
	w.do("s", "kill -9 -1 || true")
	return got
}
