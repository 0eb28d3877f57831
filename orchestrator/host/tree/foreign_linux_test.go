package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/subids"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == HelperArg {
		os.Exit(Help(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// foreignTree makes a tree in dir that a sprite with root could leave: files and folders of sub-ids, some of which shut this user
// out. Skips where the user has no sub-ids.
func foreignTree(t *testing.T, dir string) subids.Range {
	t.Helper()
	ids, err := subids.Find()
	if err != nil {
		t.Skip(err)
	}
	must(t, os.Mkdir(dir, 0o755))
	cmd := exec.Command("/bin/sh", "-ec", `read -r uid gid
		cd "$1"
		mkdir shut shut/below; echo secret >shut/below/f; ln shut/below/f shut/second; ln -s /none shut/link; mkfifo shut/pipe
		echo shared >open; chmod 644 open; echo own >own
		chown -hR "$uid:$gid" shut open; chmod 700 shut; chmod 600 shut/below/f; chmod 4755 shut/below`, "sh", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	if err := ids.Start(cmd); err != nil {
		t.Skipf("this system lets nobody map sub-ids: %v", err)
	}
	_, err = fmt.Fprintln(in, ids.UID+5, ids.GID+6)
	must(t, errors.Join(err, in.Close(), cmd.Wait()))
	t.Cleanup(func() { // what a failed test leaves, its temporary folder cannot remove
		if err := Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return ids
}

// Files of sub-ids are read, copied with their owners and removed as if they were this user's.
func TestForeignFiles(t *testing.T) {
	ctx, top := t.Context(), t.TempDir()
	src, dst, merged, empty := filepath.Join(top, "src"), filepath.Join(top, "dst"), filepath.Join(top, "merged"), filepath.Join(top, "empty")
	ids := foreignTree(t, src)
	must(t, os.Mkdir(empty, 0o755))
	if _, err := os.ReadDir(filepath.Join(src, "shut")); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("this user can read the folder: %v", err)
	}
	defer func() { must(t, errors.Join(Remove(dst), Remove(merged))) }()
	must(t, Copy(ctx, src, dst))
	must(t, Merge(ctx, merged, src, empty))
	before, err := Digest(ctx, src)
	must(t, err)
	for _, copied := range []string{dst, merged} {
		after, err := Digest(ctx, copied)
		must(t, err)
		if after != before {
			t.Errorf("the copy %s has %v, not %v", filepath.Base(copied), after, before)
		}
		must(t, Same(ctx, []string{src}, []string{copied}))
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(copied, "open"), &st))
		if int(st.Uid) != ids.UID+5 || int(st.Gid) != ids.GID+6 {
			t.Errorf("%s/open belongs to %d:%d", filepath.Base(copied), st.Uid, st.Gid)
		}
	}
	if dense, err := DenseDigest(ctx, src); err != nil || dense.Digest != before.Digest {
		t.Errorf("dense digest: %v, %v", dense, err)
	}
	if size, err := Size(ctx, src); err != nil || size.Entries != 8 {
		t.Errorf("size: %v, %v, want 8 entries", size, err)
	}
	for entries, want := range map[int64]bool{3: false, 100: true} {
		if within, err := Within(ctx, src, entries, 1<<20); err != nil || within != want {
			t.Errorf("within %d entries: %v, %v", entries, within, err)
		}
	}
	var paths []string
	must(t, Diff(ctx, []string{empty}, []string{src}, func(c Change) error {
		paths = append(paths, c.Path)
		return nil
	}))
	if got := strings.Join(paths, " "); got != "open own shut shut/below shut/below/f shut/link shut/pipe shut/second" {
		t.Errorf("diff tells %s", got)
	}
	enough := errors.New("enough")
	if err := Diff(ctx, []string{empty}, []string{src}, func(Change) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a diff that is given up: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := Diff(ended, []string{empty}, []string{src}, func(Change) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a diff that is cancelled: %v", err)
	}
	must(t, Remove(src))
	if _, err := os.Lstat(src); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	if _, err := Digest(ctx, src); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("digest of nothing: %v", err)
	}
}

// The errors of the helper are those of the system.
func TestForeignErrors(t *testing.T) {
	top := t.TempDir()
	src := filepath.Join(top, "src")
	ids := foreignTree(t, src)
	j := job{Do: opCopy, From: pathsOf(src), Dst: []byte(filepath.Join(top, "no", "dst"))}
	if _, err := j.delegate(t.Context(), ids, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("copy to nowhere: %v", err)
	}
	if _, err := (job{Do: "nothing"}).delegate(t.Context(), ids, nil); err == nil || !strings.Contains(err.Error(), "unknown operation") {
		t.Errorf("an unknown job: %v", err)
	}
	// A helper whose host is gone ends.
	cmd := exec.Command("/proc/self/exe", HelperArg)
	cmd.Stdin = strings.NewReader("")
	if err := cmd.Run(); err == nil {
		t.Error("a helper without a job succeeds")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
