package workspace_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// open makes a workspace full of traps beside a file that nobody may reach.
func open(t *testing.T) (r *workspace.Root, dir, secret string) {
	t.Helper()
	base := t.TempDir()
	dir, secret = filepath.Join(base, "ws"), filepath.Join(base, "secret")
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "repo"), 0o755),
		os.MkdirAll(filepath.Join(dir, ".lattice"), 0o755),
		os.WriteFile(secret, []byte("secret"), 0o644),
		os.WriteFile(filepath.Join(dir, "repo/a"), []byte("0123456789"), 0o640),
		os.Symlink(secret, filepath.Join(dir, "abs")),
		os.Symlink("../secret", filepath.Join(dir, "rel")),
		os.Symlink("..", filepath.Join(dir, "up")),
		os.Symlink("a", filepath.Join(dir, "repo/link")),
		os.Symlink("loop", filepath.Join(dir, "loop")),
		os.Symlink("../.lattice", filepath.Join(dir, "repo/own")),
		syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = workspace.Open(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, dir, secret
}

func TestEscapesAreRefused(t *testing.T) {
	t.Parallel()
	r, dir, secret := open(t)
	for _, name := range []string{
		"../secret", "repo/../../secret", secret, "/etc/passwd", dir + "x/a", "abs", "rel", "up/secret", "fifo", "a\x00b", "",
	} {
		t.Run(name, func(t *testing.T) {
			if data, err := r.ReadFile(name, 100); !errors.Is(err, workspace.ErrUnsafe) {
				t.Errorf("ReadFile(%q) = %q, %v, want ErrUnsafe", name, data, err)
			}
			if err := r.WriteFile(name, []byte("x"), 0); !errors.Is(err, workspace.ErrUnsafe) {
				t.Errorf("WriteFile(%q) = %v, want ErrUnsafe", name, err)
			}
		})
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("the file outside holds %q, %v", data, err)
	}
}

func TestPathsBelowTheRoot(t *testing.T) {
	t.Parallel()
	r, dir, _ := open(t)
	for _, name := range []string{"repo/a", "./repo//a", dir + "/repo/a", "repo/link", "repo/../repo/a"} {
		if data, err := r.ReadFile(name, 10); err != nil || string(data) != "0123456789" {
			t.Errorf("ReadFile(%q) = %q, %v", name, data, err)
		}
	}
	if rel, err := r.Rel(dir); err != nil || rel != "." {
		t.Errorf("Rel(root) = %q, %v", rel, err)
	}
	if _, err := r.ReadFile("repo/a", 9); !errors.Is(err, workspace.ErrTooLarge) {
		t.Errorf("ReadFile beyond its limit = %v", err)
	}
	if _, err := r.ReadFile("repo/b", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of nothing = %v", err)
	}
	data, size, err := r.ReadRange("repo/a", 8, 5)
	if err != nil || string(data) != "89" || size != 10 {
		t.Errorf("ReadRange = %q, %d, %v", data, size, err)
	}
}

func TestWriteIsAtomic(t *testing.T) {
	t.Parallel()
	r, dir, _ := open(t)
	if err := r.WriteFile("repo/link", []byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(dir, "repo/a"))
	if err != nil || info.Mode().Perm() != 0o640 || info.Size() != 3 {
		t.Errorf("written through a link: %v, %v; want mode 0640 and 3 bytes", info, err)
	}
	broken := errors.New("source broke")
	if _, err := r.WriteFrom("repo/a", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)), 0); !errors.Is(err, broken) {
		t.Errorf("WriteFrom = %v", err)
	}
	if data, err := r.ReadFile("repo/a", 100); err != nil || string(data) != "new" {
		t.Errorf("after a failed write the file holds %q, %v", data, err)
	}
	entries, err := r.List("repo")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".tmp-") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	r, dir, _ := open(t)
	for name, want := range map[string]bool{
		".lattice": true, ".lattice/outbox.jsonl": true, "./repo/../.lattice/x": true, dir + "/.lattice/x": true,
		"repo/own": true, "repo/own/outbox.jsonl": true, "../x": true, "up/ws/.lattice/x": true, "loop": true,
		"repo/a": false, "repo/new/file": false, ".latticed": false, ".": false,
	} {
		if got := r.Reserved(name); got != want {
			t.Errorf("Reserved(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestRemoveAllKeepsTheRoot(t *testing.T) {
	t.Parallel()
	r, _, secret := open(t)
	if err := r.RemoveAll("."); !errors.Is(err, workspace.ErrUnsafe) {
		t.Errorf("RemoveAll(.) = %v", err)
	}
	if err := r.RemoveAll("up"); err != nil {
		t.Errorf("RemoveAll(up) = %v", err)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Errorf("what the link pointed to is gone: %v", err)
	}
}
