package tree_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/sprites/local/tree"
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
