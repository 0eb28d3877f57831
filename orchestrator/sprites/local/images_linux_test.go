package local

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/local/layer"
)

// smallRoot makes a root filesystem of some of this machine's programs.
func smallRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put := func(path string) {
		to := filepath.Join(root, path)
		data, err := os.ReadFile(path)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"/bin/sh", "/bin/cat", "/bin/ls", "/bin/mv", "/bin/ln", "/bin/mkdir", "/usr/bin/id", "/usr/bin/env", "/usr/bin/stat"} {
		put(program)
		libraries, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Skipf("cannot tell the libraries of %s: %v", program, err)
		}
		for _, path := range regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1) {
			put(path)
		}
	}
	for name, text := range map[string]string{
		"etc/os-release": "NAME=small\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n",
		"srv/data":       "of the image\n",
	} {
		to := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// imageWorlds runs a test with each driver that can be had here.
func imageWorlds(t *testing.T, test func(t *testing.T, w *world)) {
	for _, kind := range []layer.Kind{layer.Overlay, layer.CAS} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, t.TempDir(), func(string) {})
			if w.host.confined().plain {
				t.Skipf("images need namespaces: %s", w.host.Mode())
			}
			w.host.cfg.Storage, w.host.cfg.ImportImages = kind, true
			test(t, w)
		})
	}
}

func TestSpriteFromImage(t *testing.T) {
	root := smallRoot(t)
	imageWorlds(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		made, err := w.client.Create(ctx, sprites.Create{Name: "s", Image: root})
		if err != nil {
			t.Fatal(err)
		}
		img, err := w.client.Image(ctx, root)
		if err != nil || made.Image != img.Digest {
			t.Fatalf("sprite of %q, image %+v, %v", made.Image, img, err)
		}
		sh := func(name, line string) string {
			t.Helper()
			out, _ := w.sh(name, line)
			return out
		}
		for line, want := range map[string]string{
			"cat /etc/os-release": "NAME=small",
			"cat /etc/passwd":     "root:x:0:0:root:/root:/bin/sh\nsprite:x:1000:1000:sprite:/home/sprite:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
			"id -un":              "sprite",
			"ls /usr/bin":         "env\nid\nstat",
			"cat /srv/data":       "of the image",
			"stat -c '%U %A' /workspace /home/sprite": "sprite drwxr-xr-x\nsprite drwxr-xr-x",
			"echo $PATH": "/skills:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"echo here >/workspace/f; mv /workspace/f /workspace/g; cat /workspace/g /tmp/../workspace/g": "here\nhere",
		} {
			if got := sh("s", line); got != want {
				t.Errorf("%s = %q, want %q", line, got, want)
			}
		}

		// A checkpoint, a restore and a fork keep the image, which nobody can remove meanwhile.
		w.write("one")
		point, err := w.client.Checkpoint(ctx, "s", "")
		if err != nil {
			t.Fatal(err)
		}
		w.write("two")
		if _, err := w.client.Fork(ctx, "s", point.ID, "fork"); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Restore(ctx, "s", point.ID); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"s", "fork"} {
			if got := sh(name, "cat /workspace/f /etc/os-release"); got != "oneNAME=small" {
				t.Errorf("%s has %q", name, got)
			}
			if got, err := w.client.Get(ctx, name); err != nil || got.Image != img.Digest {
				t.Errorf("%s is of %q, %v", name, got.Image, err)
			}
		}
		var refused *sprites.APIError
		if err := w.client.RemoveImage(ctx, img.Digest); !errors.As(err, &refused) || refused.Status != http.StatusConflict || !strings.Contains(err.Error(), "fork, s") {
			t.Errorf("remove an image in use: %v", err)
		}
		for _, name := range []string{"s", "fork"} {
			if err := w.client.Delete(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.client.RemoveImage(ctx, img.Digest); err != nil {
			t.Error(err)
		}
		w.check()
	})
}
