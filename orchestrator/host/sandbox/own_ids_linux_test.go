package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Boxes of a root host are users of their own each, for the kernel, and their files belong to one owner all the same: what
// one wrote the next, with other ids, goes on with, as a fork does.
func TestOwnIDs(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	self, err := os.Executable()
	must(t, err)
	if err := sandbox.TryOwnIDs(self, dir); err != nil {
		if os.Getuid() == 0 {
			t.Fatalf("TryOwnIDs = %v", err)
		}
		t.Skip(err)
	}
	owner, _ := spec.Owner()
	layers := []string{mkdir(t, filepath.Join(dir, "base"))}
	must(t, spec.Skeleton(layers[0], owner, owner))
	users := map[string]bool{}
	grow := func(name, want string) (box *sandbox.Box, upper string) {
		cfg, err := config(mkdir(t, filepath.Join(dir, name)), false)
		must(t, err)
		upper = mkdir(t, filepath.Join(dir, name, "upper"))
		work := mkdir(t, filepath.Join(dir, name, "work"))
		must(t, errors.Join(os.Lchown(upper, owner-1000, owner-1000), os.Lchown(work, owner-1000, owner-1000)))
		cfg.Root = spec.Root{Upper: upper, Work: work, Lower: layers, Host: true}
		box = launch(t, cfg)
		user, _ := run(t, box, "awk '{print $2}' /proc/self/uid_map")
		users[user] = true
		got, _ := run(t, box, fmt.Sprintf(`set -e; cd /workspace; echo %[1]s >>notes; mkdir -p d; mv d d%[1]s; touch /var/cache/sprite/c; stat -c %%u notes d* /var/cache/sprite/c; cat notes`, name))
		if got = strings.Join(strings.Fields(got), " "); got != want {
			t.Errorf("box %s: %q, want %q", name, got, want)
		}
		for _, path := range []string{filepath.Join(upper, "workspace", "notes"), filepath.Join(cfg.Cache, "c")} {
			st, err := os.Lstat(path)
			must(t, err)
			if uid := int(st.Sys().(*syscall.Stat_t).Uid); uid != owner {
				t.Errorf("%s belongs to %d on the disk, want %d", path, uid, owner)
			}
		}
		return box, upper
	}
	first, upper := grow("first", "1000 1000 1000 first")
	must(t, first.Stop())
	layers = append([]string{upper}, layers...)
	grow("second", "1000 1000 1000 1000 first second")
	grow("third", "1000 1000 1000 1000 first third")
	if len(users) != 2 { // what the first one had the second has
		t.Errorf("boxes run as %v, want users of their own", users)
	}
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	must(t, os.Mkdir(dir, 0o755))
	return dir
}
