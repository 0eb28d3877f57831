package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// listing describes a tree: kind, mode, time, and content or target of each entry.
func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		line := fmt.Sprintf("%v %s", info.Mode(), info.ModTime().UTC().Format(time.RFC3339Nano))
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %.40q", len(b), b)
		case d.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			line += " -> " + target
		}
		all[rel] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	must(t, os.Chmod(path, mode))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCopyIsFaithful(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for i := range 40 {
		write(t, filepath.Join(src, fmt.Sprint("d", i%7), fmt.Sprint("f", i)), strings.Repeat("x", i*1000), 0o640)
	}
	write(t, filepath.Join(src, "run.sh"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(src, "empty"), "", 0o600)
	write(t, filepath.Join(src, "name with\nnewline"), "odd", 0o644)
	must(t, os.Symlink("/etc/passwd", filepath.Join(src, "outside")))
	must(t, os.Symlink("missing", filepath.Join(src, "d1", "dangling")))
	must(t, os.Link(filepath.Join(src, "run.sh"), filepath.Join(src, "d2", "hard")))
	must(t, os.Mkdir(filepath.Join(src, "sticky"), 0o755))
	must(t, os.Chmod(filepath.Join(src, "sticky"), 0o777|fs.ModeSticky))
	old := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	for _, name := range []string{"run.sh", "d3/f3", "d3", "."} {
		must(t, os.Chtimes(filepath.Join(src, name), old, old))
	}

	must(t, tree.Copy(t.Context(), src, dst))
	if diff := cmp.Diff(listing(t, src), listing(t, dst)); diff != "" {
		t.Errorf("the copy differs (-source +copy):\n%s", diff)
	}
	a, _ := os.Stat(filepath.Join(dst, "run.sh"))
	b, _ := os.Stat(filepath.Join(dst, "d2", "hard"))
	if !os.SameFile(a, b) {
		t.Error("hard links became two files")
	}
	must(t, tree.Sync(dst))
}

func TestCopyOfSpecialFiles(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	write(t, filepath.Join(src, "tool"), "x", 0o755|fs.ModeSetuid|fs.ModeSetgid)
	must(t, unix.Mkfifo(filepath.Join(src, "pipe"), 0o666))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, os.Mkdir(filepath.Join(src, "s"), 0o755))
	t.Chdir(src)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "s/sock"}))

	must(t, tree.Copy(t.Context(), src, dst))
	got := listing(t, dst)
	if len(got) != 4 || !strings.HasPrefix(got["tool"], "ugrwxr-xr-x ") || !strings.HasPrefix(got["pipe"], "prw-") {
		t.Errorf("copy holds %v, want the tool with its mode, the pipe and folder s only", got)
	}
}

func TestCopyKeepsHolesAndAttributes(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	path := filepath.Join(src, "sparse")
	f, err := os.Create(path)
	must(t, err)
	const size = 64<<20 + 5
	_, err = f.WriteAt([]byte("middle"), 32<<20)
	must(t, err)
	must(t, f.Truncate(size))
	must(t, f.Close())
	attributes := unix.Setxattr(path, "user.note", []byte("kept"), 0) == nil

	must(t, tree.Copy(t.Context(), src, dst))
	copied := filepath.Join(dst, "sparse")
	info, err := os.Stat(copied)
	must(t, err)
	if info.Size() != size {
		t.Errorf("size = %d, want %d", info.Size(), int64(size))
	}
	if blocks := info.Sys().(*syscall.Stat_t).Blocks; blocks > 2048 {
		t.Errorf("the copy takes %d blocks, want holes kept", blocks)
	}
	a, _ := os.ReadFile(path)
	b, _ := os.ReadFile(copied)
	if !bytes.Equal(a, b) {
		t.Error("content differs")
	}
	if attributes {
		value := make([]byte, 16)
		if n, err := unix.Getxattr(copied, "user.note", value); err != nil || string(value[:n]) != "kept" {
			t.Errorf("user.note = %q, %v", value[:max(n, 0)], err)
		}
	}
}

func TestCopyKeepsOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root copies owners")
	}
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	write(t, filepath.Join(src, "d", "f"), "x", 0o600)
	must(t, os.Symlink("f", filepath.Join(src, "d", "l")))
	for _, name := range []string{".", "d", "d/f", "d/l"} {
		must(t, os.Lchown(filepath.Join(src, name), 101000, 101001))
	}
	must(t, tree.Copy(t.Context(), src, dst))
	for _, name := range []string{".", "d", "d/f", "d/l"} {
		info, err := os.Lstat(filepath.Join(dst, name))
		must(t, err)
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 101000 || st.Gid != 101001 {
			t.Errorf("%s belongs to %d:%d, want 101000:101001", name, st.Uid, st.Gid)
		}
	}
}

func TestCopyOfTreeInUse(t *testing.T) {
	base := t.TempDir()
	src := filepath.Join(base, "src")
	must(t, os.Mkdir(src, 0o755))
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := filepath.Join(src, fmt.Sprint("f", i%50))
			os.WriteFile(name, make([]byte, 100_000), 0o600)
			os.Truncate(name, 10)
			os.Remove(filepath.Join(src, fmt.Sprint("f", (i+25)%50)))
		}
	})
	for i := range 50 {
		if err := tree.Copy(t.Context(), src, filepath.Join(base, fmt.Sprint("copy", i))); err != nil {
			t.Errorf("Copy = %v, want nil", err)
		}
	}
	stop()
	busy.Wait()
}

func TestCopyEndsWithItsContext(t *testing.T) {
	src := t.TempDir()
	write(t, filepath.Join(src, "f"), "x", 0o600)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.Copy(ctx, src, filepath.Join(t.TempDir(), "copy")); !errors.Is(err, context.Canceled) {
		t.Errorf("Copy = %v, want context.Canceled", err)
	}
}

func TestLockedFolders(t *testing.T) {
	base := t.TempDir()
	src, dst := filepath.Join(base, "src"), filepath.Join(base, "copy")
	write(t, filepath.Join(src, "shut", "inner", "f"), "x", 0)
	must(t, os.Chmod(filepath.Join(src, "shut", "inner"), 0o500))
	must(t, os.Chmod(filepath.Join(src, "shut"), 0))
	must(t, tree.Copy(t.Context(), src, dst))
	for _, root := range []string{src, dst} {
		info, err := os.Stat(filepath.Join(root, "shut"))
		must(t, err)
		if info.Mode().Perm() != 0 {
			t.Errorf("%s/shut has mode %v, want 0", root, info.Mode())
		}
		must(t, tree.Remove(root))
		if _, err := os.Lstat(root); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after Remove, Lstat(%s) = %v", root, err)
		}
	}
}

func TestRemoveDoesNotFollowLinks(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "host", "f"), "x", 0o600)
	must(t, os.Mkdir(filepath.Join(base, "tree"), 0o755))
	must(t, os.Symlink("../host", filepath.Join(base, "tree", "l")))
	must(t, tree.Remove(filepath.Join(base, "tree")))
	if _, err := os.Stat(filepath.Join(base, "host", "f")); err != nil {
		t.Errorf("a file outside is gone: %v", err)
	}
	must(t, tree.Remove(filepath.Join(base, "tree"))) // a missing tree is no error
}

// A sprite can make a tree that is deeper than there are descriptors, and paths longer than the kernel takes.
func TestDeepTree(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "tree")
	must(t, os.Mkdir(root, 0o755))
	at, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range 3000 {
		must(t, unix.Mkdirat(at, "sub", 0o755))
		next, err := unix.Openat(at, "sub", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	dst := filepath.Join(base, "copy")
	if err := tree.Copy(t.Context(), root, dst); err == nil || !strings.Contains(err.Error(), "folders deep") {
		t.Errorf("Copy = %v, want a refusal of the depth", err)
	}
	must(t, tree.Remove(dst))
	must(t, tree.Remove(root))
	if left, _ := os.ReadDir(base); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
