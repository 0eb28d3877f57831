package host

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// smallRoot makes a root filesystem of some of this machine's programs.
func smallRoot(t *testing.T, more ...string) string {
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
	for _, program := range append([]string{"/bin/sh", "/bin/cat", "/bin/ls", "/bin/mv", "/bin/ln", "/bin/mkdir", "/usr/bin/id", "/usr/bin/env", "/usr/bin/stat"}, more...) {
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

// imageWorld is a host with a storage driver that can show images.
func imageWorld(t *testing.T, kind layer.Kind) *world {
	w := driverWorld(t, kind, func(string) {})
	if w.host.confiner.Confined().Plain {
		t.Skipf("images need namespaces: %s", w.host.Mode())
	}
	return w
}

// imageWorlds runs a test with each driver that can be had here.
func imageWorlds(t *testing.T, test func(t *testing.T, w *world)) {
	for _, kind := range []layer.Kind{layer.Overlay, layer.Btrfs, layer.CAS} {
		t.Run(string(kind), func(t *testing.T) {
			w := imageWorld(t, kind)
			w.host.core.Config.ImportImages = true
			test(t, w)
		})
	}
}

// A tool that the host was asked to show is seen and found in a sprite whose image has no such folder.
func TestToolInAnImage(t *testing.T) {
	root := smallRoot(t)
	w := imageWorld(t, layer.Overlay)
	w.host.core.Config.ImportImages = true
	parent, err := os.UserCacheDir() // a checkout below /tmp cannot be shown
	if err != nil {
		t.Fatal(err)
	}
	err = os.MkdirAll(parent, 0o755)
	tool, made := os.MkdirTemp(parent, "lattice-test-")
	if err := errors.Join(err, made); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tool)
	if err := errors.Join(os.Chmod(tool, 0o755), os.CopyFS(tool, os.DirFS("../testdata/tool"))); err != nil {
		t.Fatal(err)
	}
	w.host.core.Config.AskedTools = []string{tool}
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s", Image: root}); err != nil {
		t.Fatal(err)
	}
	if out, code := w.sh("s", "greet"); out != "greet 1.0" || code != 0 {
		t.Errorf("greet = %q, %d", out, code)
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
		img, err := w.client.Images().Get(ctx, root)
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
			"echo $PATH": "/skills:/.sprite/sbin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.sprite/bin",
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
		if err := w.client.Images().Remove(ctx, img.Digest); !errors.As(err, &refused) || refused.Status != http.StatusConflict || !strings.Contains(err.Error(), "fork, s") {
			t.Errorf("remove an image in use: %v", err)
		}
		for _, name := range []string{"s", "fork"} {
			if err := w.client.Delete(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.client.Images().Remove(ctx, img.Digest); err != nil {
			t.Error(err)
		}
		w.check()
	})
}

// An image may have anything where a sprite has folders and files of its own: the sprite has its own there, and nothing of
// the host's is reached.
func TestHostileImages(t *testing.T) {
	places := []string{"workspace", "skills", ".sprite", "proc", "dev", "tmp", "run", "home", "home/sprite", "var", "var/cache/sprite", "etc/passwd", "etc/group", "etc/hostname", "etc/resolv.conf"}
	obstacles := map[string]func(path, outside string) error{
		"links out":           func(path, outside string) error { return os.Symlink(outside, path) },
		"links up":            func(path, outside string) error { return os.Symlink("../../../../../.."+outside, path) },
		"links to themselves": func(path, _ string) error { return os.Symlink(filepath.Base(path), path) },
		"pipes":               func(path, _ string) error { return syscall.Mkfifo(path, 0o666) },
		"files":               func(path, _ string) error { return os.WriteFile(path, []byte("of the image"), 0o666) },
		"shut folders":        func(path, _ string) error { return os.Mkdir(path, 0o500) },
		"a way out for /etc": func(path, outside string) error {
			etc := filepath.Dir(path)
			if filepath.Base(path) != "passwd" {
				return os.MkdirAll(path, 0o755)
			}
			return errors.Join(os.RemoveAll(etc), os.Symlink(outside, etc))
		},
		"links to /etc": func(path, _ string) error { return os.Symlink("/etc", path) },
	}
	imageWorlds(t, func(t *testing.T, w *world) {
		for name, put := range obstacles {
			t.Run(name, func(t *testing.T) {
				root, outside := smallRoot(t), t.TempDir()
				if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o666); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(outside, 0o777); err != nil {
					t.Fatal(err)
				}
				for _, place := range places {
					path := filepath.Join(root, place)
					if info, err := os.Lstat(filepath.Dir(path)); err != nil || !info.IsDir() || info.Mode().Perm() == 0o500 {
						continue // below an obstacle already
					}
					if err := errors.Join(os.RemoveAll(path), put(path, outside)); err != nil {
						t.Fatal(err)
					}
				}
				sprite := strings.ReplaceAll(strings.ReplaceAll(name, "/", ""), " ", "-")
				if _, err := w.client.Create(t.Context(), sprites.Create{Name: sprite, Image: root}); err != nil {
					t.Fatal(err)
				}
				out, code := w.sh(sprite, `
					id -un
					for d in /workspace /home/sprite /tmp /var/cache/sprite; do
						echo mine >$d/f && cat $d/f || echo "cannot write $d"
					done
					for f in /.sprite/f /proc/f /etc/passwd; do
						(echo bad >$f) 2>/dev/null && echo "can write $f"
					done
					cat /proc/self/comm /workspace/secret /etc/secret /skills/secret /.sprite/secret /home/secret 2>/dev/null
					ls /.sprite
				`)
				want := "sprite\nmine\nmine\nmine\nmine\ncat\n"
				if !strings.HasPrefix(out, want) || strings.Contains(out, "secret") || !strings.Contains(out, "api.sock") {
					t.Errorf("inside: %q (%d), want %q and what /.sprite holds", out, code, want)
				}
				if _, err := w.client.Checkpoint(t.Context(), sprite, ""); err != nil {
					t.Error(err)
				}
				if err := w.client.WriteFile(t.Context(), sprite, "/workspace/by-api", strings.NewReader("x"), 0o644); err != nil {
					t.Error(err)
				}
				left, err := os.ReadDir(outside)
				if text, _ := os.ReadFile(filepath.Join(outside, "secret")); err != nil || len(left) != 1 || string(text) != "secret" {
					t.Errorf("outside holds %v (%q), %v", left, text, err)
				}
			})
		}
	})
}

// Without namespaces nothing could show an image, so that none is ever left out silently.
func TestImagesNeedNamespaces(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.host.confiner.Confined = func() confine.Confinement {
		return confine.Confinement{Plain: true, Text: "plain process tree (a test)"}
	}
	w.host.core.Config.ImportImages = true
	root := t.TempDir()
	for _, ref := range []string{root, "some"} {
		_, err := w.client.Create(t.Context(), sprites.Create{Name: "s", Image: ref})
		var refused *sprites.APIError
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || refused.Code != "isolation_unavailable" || !strings.Contains(refused.Message, "lattice doctor") {
			t.Errorf("Create from %s = %v", ref, err)
		}
	}
	w.host.core.Config.Image = root
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err == nil {
		t.Error("a sprite was made without the default image")
	}
	if made, err := w.client.Create(t.Context(), sprites.Create{Name: "s", Image: sprites.NoImage}); err != nil || made.Image != "" {
		t.Errorf("Create without an image = %+v, %v", made, err)
	}
}

// A host's default image is imported once, and paths of requests only where the host allows that.
func TestDefaultImage(t *testing.T) {
	w, root := imageWorld(t, layer.Overlay), smallRoot(t)
	w.host.core.Config.Image = root
	for _, name := range []string{"a", "b"} {
		if made, err := w.client.Create(t.Context(), sprites.Create{Name: name}); err != nil || made.Image == "" {
			t.Fatalf("Create = %+v, %v", made, err)
		}
	}
	if all, err := w.client.Images().List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("Images = %+v, %v", all, err)
	}
	if out, _ := w.sh("b", "cat /etc/os-release"); out != "NAME=small" {
		t.Errorf("/etc/os-release = %q", out)
	}
	for ref, status := range map[string]int{root: http.StatusForbidden, "unknown": http.StatusNotFound, "rel/ative": http.StatusNotFound} {
		_, err := w.client.Create(t.Context(), sprites.Create{Name: "c", Image: ref})
		var refused *sprites.APIError
		if !errors.As(err, &refused) || refused.Status != status {
			t.Errorf("Create from %s = %v, want status %d", ref, err, status)
		}
	}

	// An image that somebody removed from the disk is no reason to show anything else.
	made, err := w.client.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(w.host.layers.Images.Dir(made.Image))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Exec(t.Context(), "a", sprites.Exec{Cmd: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "import it again") {
		t.Errorf("Exec without the image = %v", err)
	}
	if img, err := w.client.Images().Import(t.Context(), sprites.ImageImport{Ref: root}, nil); err == nil {
		t.Errorf("a request imported %+v", img)
	}
	if _, err := w.host.ImportImage(t.Context(), root, "", nil); err != nil {
		t.Fatal(err)
	}
	if out, _ := w.sh("a", "cat /etc/os-release"); out != "NAME=small" {
		t.Errorf("/etc/os-release of the image imported again = %q", out)
	}
}
