package tree_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Attacker: while the host copies, the sprite exchanges a folder, and a file, with links to what only the host may read.
func TestCopyLeaksNothingWhileFoldersAreSwapped(t *testing.T) {
	base := t.TempDir()
	src, secrets := filepath.Join(base, "src"), filepath.Join(base, "host")
	for i := range 20 {
		write(t, filepath.Join(secrets, fmt.Sprint("f", i)), "SECRET", 0o600)
		write(t, filepath.Join(src, "dir", fmt.Sprint("f", i)), "public", 0o600)
	}
	write(t, filepath.Join(src, "file"), "public", 0o600)
	must(t, os.Symlink("../host", filepath.Join(src, "dirlink")))
	must(t, os.Symlink("../host/f1", filepath.Join(src, "filelink")))

	ctx, stop := context.WithCancel(t.Context())
	var attacker sync.WaitGroup
	attacker.Go(func() {
		for ctx.Err() == nil {
			for _, name := range []string{"dir", "file"} {
				unix.Renameat2(unix.AT_FDCWD, filepath.Join(src, name), unix.AT_FDCWD, filepath.Join(src, name+"link"), unix.RENAME_EXCHANGE)
			}
		}
	})
	for i := range 150 {
		dst := filepath.Join(base, fmt.Sprint("copy", i))
		if err := tree.Copy(t.Context(), src, dst); err != nil {
			t.Errorf("Copy = %v, want what moves to be no error", err)
		}
		for name, line := range listing(t, dst) {
			if strings.Contains(line, "SECRET") {
				t.Fatalf("the copy holds a file of the host: %s %s", name, line)
			}
		}
		must(t, tree.Remove(dst))
	}
	stop()
	attacker.Wait()
	if got := listing(t, secrets); len(got) != 21 {
		t.Errorf("the host's folder has %d entries, want 21", len(got))
	}
}

// Attacker: folders whose marks send the reader of a stack elsewhere. What shows lies in the layers all the same, and neither
// comparing nor merging ends anywhere else.
func TestRedirectionsStayInTheirLayers(t *testing.T) {
	base := t.TempDir()
	upper, lower := filepath.Join(base, "upper"), filepath.Join(base, "lower")
	write(t, filepath.Join(base, "host", "secret"), "SECRET", 0o600)
	write(t, filepath.Join(lower, "old", "file"), "below", 0o600)
	must(t, os.Symlink(filepath.Join(base, "host"), filepath.Join(lower, "link")))
	mark := "user.overlay.redirect"
	if os.Geteuid() == 0 {
		mark = "trusted.overlay.redirect"
	}
	for i, to := range []string{
		"/../host", "/../../../../../../../../" + base + "/host", "../host", "..", ".", "/", "//", "/link", "link", "/old/../../host",
		base + "/host", "/old/file", "/nothing/at/all", strings.Repeat("/old/..", 500), "\x00", "/old\x00/x", "\xff", strings.Repeat("x", 300),
	} {
		dir := filepath.Join(upper, fmt.Sprint("d", i))
		write(t, filepath.Join(dir, "own"), "x", 0o600)
		if err := unix.Setxattr(dir, mark, []byte(to), 0); err != nil {
			t.Skipf("no marks can be set here: %v", err)
		}
	}
	must(t, tree.Diff(t.Context(), []string{lower}, []string{upper, lower}, func(c tree.Change) error {
		if strings.Contains(c.Path, "secret") {
			t.Errorf("%s shows", c.Path)
		}
		return nil
	}))
	merged := filepath.Join(base, "merged")
	must(t, tree.Merge(t.Context(), merged, upper, lower))
	for name, line := range listing(t, merged) {
		if strings.Contains(line, "SECRET") || strings.Contains(name, "secret") {
			t.Errorf("the merged layer has %s %s", name, line)
		}
	}
	if _, err := tree.Digest(t.Context(), upper); err != nil {
		t.Errorf("Digest = %v", err)
	}
}

// Attacker: a chain of folders, deeper than there are descriptors, in each of two layers.
func TestStacksHoldFewDescriptors(t *testing.T) {
	base := t.TempDir()
	layers := []string{filepath.Join(base, "upper"), filepath.Join(base, "lower")}
	for _, l := range layers {
		must(t, os.Mkdir(l, 0o755))
		chain(t, l, "d", 2100)
	}
	before := descriptors(t)
	err := tree.Diff(t.Context(), layers[1:], layers, func(tree.Change) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("Diff = %v, want it refused", err)
	}
	err = tree.Merge(t.Context(), filepath.Join(base, "merged"), layers...)
	if err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("Merge = %v, want it refused", err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors stay open", after-before)
	}
	must(t, tree.Remove(base+"/upper"))
	must(t, tree.Remove(base+"/lower"))
	must(t, tree.Remove(base+"/merged"))
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// chain makes folders in each other, and returns the inodes of all.
func chain(t *testing.T, dir, name string, n int) (inodes []uint64) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH, 0)
	must(t, err)
	for range n {
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_PATH, 0)
		must(t, err)
		unix.Close(at)
		at = next
		var st unix.Stat_t
		must(t, unix.Fstat(at, &st))
		inodes = append(inodes, st.Ino)
	}
	unix.Close(at)
	return inodes
}

// Attacker: a tree deeper than its remover goes holds, at the top, what the remover might call the folders that it brings
// there. The order of names in a folder is not the attacker's choice, so that he tries several.
func TestRemoveIsNotStoppedByNames(t *testing.T) {
	for i := range 4 {
		top := filepath.Join(t.TempDir(), "tree")
		must(t, os.Mkdir(top, 0o755))
		for _, inode := range chain(t, top, fmt.Sprint(i), 120) {
			must(t, os.MkdirAll(filepath.Join(top, ".deep-1-"+strconv.FormatUint(inode, 36), "taken"), 0o755))
		}
		if err := tree.Remove(top); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
}
