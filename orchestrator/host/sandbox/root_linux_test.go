package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// layered describes a box whose root is an overlay: a skeleton below, n frozen layers, and one to write.
func layered(t *testing.T, n int) spec.Config {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	cfg, err := config(dir, false)
	must(t, err)
	uid, gid := spec.Owner()
	if os.Getuid() != 0 {
		uid, gid = -1, -1
	}
	base := filepath.Join(dir, "base")
	must(t, os.Mkdir(base, 0o755))
	must(t, spec.Skeleton(base, uid, gid))
	cfg.Root = spec.Root{Upper: layer(t, dir, "upper"), Work: filepath.Join(dir, "work"), Lower: []string{base}, Host: true}
	for range n {
		freeze(t, &cfg)
	}
	return cfg
}

func layer(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.Mkdir(path, 0o755))
	if uid, gid := spec.Owner(); os.Getuid() == 0 && uid > 0 {
		must(t, os.Chown(path, uid-1000, gid-1000))
	}
	return path
}

// freeze stacks a new layer on the one that was written.
func freeze(t *testing.T, cfg *spec.Config) {
	t.Helper()
	cfg.Root.Lower = append([]string{cfg.Root.Upper}, cfg.Root.Lower...)
	cfg.Root.Upper = layer(t, filepath.Dir(cfg.Root.Upper), filepath.Base(cfg.Root.Upper)+"x")
	must(t, os.RemoveAll(cfg.Root.Work))
}

func launch(t *testing.T, cfg spec.Config) *sandbox.Box {
	t.Helper()
	box, err := sandbox.Start(cfg)
	var refusal *spec.Refusal
	if errors.As(err, &refusal) && refusal.Step == "start init in new namespaces" {
		t.Skipf("no namespaces here: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, box.Stop()) })
	return box
}

func TestOverlayRoot(t *testing.T) {
	cfg := layered(t, 0)
	box := launch(t, cfg)
	if out, code := run(t, box, `mkdir -p d/sub && echo one >d/f && ln d/f d/g && echo t >/tmp/t && echo h >~/h && rm -f /etc/none && ln -s nowhere l && chmod 4755 d/f`); code != 0 {
		t.Fatalf("writing: %s", out)
	}
	for _, name := range []string{"workspace/d/f", "tmp/t", "home/sprite/h"} {
		info, err := os.Stat(filepath.Join(cfg.Root.Upper, name))
		must(t, err)
		if uid, _ := box.Config().Owner(); ownerOf(info) != uid {
			t.Errorf("%s belongs to %d, want %d", name, ownerOf(info), uid)
		}
	}
	must(t, box.Stop())

	// Stacked, at once: what was frozen is seen, and does not change.
	freeze(t, &cfg)
	second := launch(t, cfg)
	if out, code := run(t, second, `cat d/f && rm -r d/sub && echo two >>d/g && cat d/f && rm /tmp/t && readlink l`); code != 0 {
		t.Errorf("after stacking: %s", out)
	} else if os.Getuid() == 0 && out != "one\none\ntwo\nnowhere" {
		t.Errorf("hard links and contents after stacking: %q", out)
	}
	if out, code := run(t, second, `python3 -c 'import os; os.rename("d", "e")' 2>&1 || mv d e && test -f e/f`); code != 0 {
		t.Errorf("rename a folder of a frozen layer: %s", out)
	}
	if b, err := os.ReadFile(filepath.Join(cfg.Root.Lower[0], "workspace/d/f")); string(b) != "one\n" || err != nil {
		t.Errorf("the frozen layer now holds %q, %v", b, err)
	}
	must(t, second.Stop())

	// The same upper layer again, as after a crash, and then with its lower layers copied elsewhere.
	third := launch(t, cfg)
	if out, code := run(t, third, "cat e/f && ! test -e d"); code != 0 {
		t.Errorf("started again: %s", out)
	}
	must(t, third.Stop())
	moved := cfg.Root.Lower[0] + "-copied"
	if out, err := copyTree(cfg.Root.Lower[0], moved); err != nil {
		t.Fatalf("copy a layer: %v: %s", err, out)
	}
	cfg.Root.Lower[0] = moved
	if out, code := run(t, launch(t, cfg), "cat e/f && ! test -e d"); code != 0 {
		t.Errorf("with a copied lower layer: %s", out)
	}
}

func TestDeepOverlay(t *testing.T) {
	cfg := layered(t, 64)
	if out, code := run(t, launch(t, cfg), "echo x >f && cat f"); out != "x" || code != 0 {
		t.Errorf("64 layers: %q, %d", out, code)
	}
}

func TestPoints(t *testing.T) {
	cfg := layered(t, 0)
	box := launch(t, cfg)
	run(t, box, "echo old >f")
	must(t, box.Stop())
	before := spec.Root{Lower: cfg.Root.Lower}
	freeze(t, &cfg)
	cfg.Points = []spec.Point{{ID: "v1", Root: spec.Root{Lower: cfg.Root.Lower}}, {ID: "v0", Root: before}}
	box = launch(t, cfg)
	out, code := run(t, box, `echo new >f; cd /.sprite/checkpoints && cat v1/workspace/f; ls v0/workspace; ls`)
	if out != "old\nv0\nv1" || code != 0 {
		t.Errorf("checkpoints = %q, %d", out, code)
	}
	for name, script := range map[string]string{
		"write": "echo x >/.sprite/checkpoints/v1/workspace/f", "add": "touch /.sprite/checkpoints/v0/tmp/x", "replace": "rmdir /.sprite/checkpoints/v0",
		"make": "mkdir /.sprite/checkpoints/v9", "remount": "mount -o remount,rw /.sprite/checkpoints/v1",
	} {
		if out, code := run(t, box, script+" 2>&1"); code == 0 {
			t.Errorf("%s succeeds: %s", name, out)
		}
	}
}

// A sprite that owns its root may put anything where the box mounts something. None of it leads anywhere, and what is
// mounted cannot be taken away.
func TestMountPointsInTheSpritesHands(t *testing.T) {
	outside := t.TempDir()
	must(t, os.Chmod(outside, 0o777))
	for name, spoil := range map[string]func(root string) error{
		"links out": func(root string) error {
			for _, p := range []string{"skills", ".sprite", "dev", "proc", "run", "etc", "var"} {
				if err := errors.Join(os.RemoveAll(filepath.Join(root, p)), os.Symlink(outside, filepath.Join(root, p))); err != nil {
					return err
				}
			}
			return nil
		},
		"files": func(root string) error {
			for _, p := range []string{"skills", "dev", "usr", "bin", "lib", "var"} {
				if err := errors.Join(os.RemoveAll(filepath.Join(root, p)), os.WriteFile(filepath.Join(root, p), nil, 0o644)); err != nil {
					return err
				}
			}
			return nil
		},
		"a FIFO and a folder": func(root string) error {
			return errors.Join(os.MkdirAll(filepath.Join(root, "etc", "passwd"), 0o755), os.RemoveAll(filepath.Join(root, "dev")), unix.Mkfifo(filepath.Join(root, "dev"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config(t.TempDir(), false)
			must(t, err)
			must(t, spoil(cfg.Root.Dir))
			if os.Getuid() == 0 { // the sprite's user cannot do this to a root of the box's root; the box's root could
				must(t, exec.Command("chown", "-Rh", "100000:100000", cfg.Root.Dir).Run())
			}
			box := launch(t, cfg)
			if out, code := run(t, box, "id -un && ls /skills /proc/self/status >/dev/null && echo ok >/dev/null"); out != "sprite" || code != 0 {
				t.Errorf("the box = %q, %d", out, code)
			}
			for _, path := range []string{"/usr", "/bin", "/etc/passwd", "/skills", "/.sprite", "/proc", "/dev", "/dev/null", "/run", "/var/cache/sprite"} {
				for _, attempt := range []string{"rm -f ", "mv -T PATH PATH.old #", "rmdir ", "ln -sfn /tmp "} {
					script := strings.ReplaceAll(attempt, "PATH", path) + path
					run(t, box, script+" 2>/dev/null")
				}
			}
			if out, code := run(t, box, "id -un && /bin/ls /skills >/dev/null && test -c /dev/null && test -d /proc/self && grep -c ' /usr \\| /skills ' /proc/self/mountinfo"); out != "sprite\n2" || code != 0 {
				t.Errorf("after the attempts: %q, %d", out, code)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
				t.Errorf("outside: %v, %v", left, err)
			}
		})
	}
}

// Programs install and keep data where they expect to, at every level with namespaces; what is shown of the host stays as it is.
func TestFoldersOfPrograms(t *testing.T) {
	cfg := layered(t, 1)
	box := launch(t, cfg)
	for _, path := range []string{"/app", "/data/of/mine", "/opt/x", "/srv/x", "/mnt/x", "/var/local/x", "/usr/local/x", "/usr/local/bin/x", "/usr/local/lib/x/y"} {
		if out, code := run(t, box, "mkdir -p "+path+" && echo x >"+path+"/f && mv "+path+"/f "+path+"/g && rm "+path+"/g 2>&1"); code != 0 {
			t.Errorf("make and fill %s: %s", path, out)
		}
	}
	for _, path := range []string{"/usr/x", "/bin/x", "/.sprite/x", "/skills/x"} {
		if out, code := run(t, box, "mkdir "+path+" 2>&1"); code == 0 {
			t.Errorf("mkdir %s succeeds: %s", path, out)
		}
	}
}

// The host's /usr/local is below the sprite's, which layers keep as they keep the rest.
func TestLocalFolder(t *testing.T) {
	entries, err := os.ReadDir("/usr/local")
	if err != nil || len(entries) == 0 {
		t.Skip("this machine has no programs in /usr/local")
	}
	cfg := layered(t, 0)
	box := launch(t, cfg)
	if out, code := run(t, box, "ls /usr/local/"+entries[0].Name()+" && mkdir -p /usr/local/mine/sub && echo x >/usr/local/mine/f && echo '#!/bin/sh' >/usr/local/bin/tool && chmod 755 /usr/local/bin/tool && tool"); code != 0 {
		t.Fatalf("install to /usr/local: %s", out)
	}
	if _, err := os.Stat("/usr/local/mine"); err == nil {
		t.Fatal("the host's /usr/local was written to")
	}
	must(t, box.Stop())
	freeze(t, &cfg)
	box = launch(t, cfg)
	if out, code := run(t, box, "tool && cat /usr/local/mine/f && rm -r /usr/local/mine && ! test -e /usr/local/mine && ls /usr/local/"+entries[0].Name()); code != 0 || !strings.HasPrefix(out, "x") {
		t.Errorf("on a frozen layer: %d %s", code, out)
	}
	must(t, box.Stop())
	if out, code := run(t, launch(t, cfg), "! test -e /usr/local/mine && tool"); code != 0 {
		t.Errorf("started again: %s", out)
	}
}
