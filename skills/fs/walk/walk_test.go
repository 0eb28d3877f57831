package walk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/spritekit/lattice/spritekit/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func plant(t testing.TB, files ...string) (*workspace.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(files[i+1]), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

// visited is all that a walk visits, sorted.
func visited(t testing.TB, root *workspace.Root, start string, o Options) string {
	t.Helper()
	var mu sync.Mutex
	var all []string
	_, err := Tree(t.Context(), root, start, o, func(worker int, e *Entry) error {
		if worker < 0 || worker >= Workers() {
			t.Errorf("worker %d of %d", worker, Workers())
		}
		mu.Lock()
		defer mu.Unlock()
		name := e.Path
		if e.Type.IsDir() {
			name += "/"
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestTree(t *testing.T) {
	root, dir := plant(t,
		".gitignore", "*.o\n", "a.o", "", "r/.git/info/exclude", "x\n", "r/.gitignore", "/y\n!z\nfolder/\n", "r/a.o", "", "r/x", "", "r/y", "", "r/sub/y", "", "r/sub/x", "",
		"r/folder/deep/file", "", "s/.git", "gitdir: elsewhere\n", "s/a.o", "", ".lattice/x", "", ".lattice-tmp-1/x", "", "n/.lattice/x", "",
	)
	if err := errors.Join(os.Symlink("r", filepath.Join(dir, "link")), os.Symlink("..", filepath.Join(dir, "r/loop"))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, start string
		options     Options
		want        string
	}{
		// r is a repository of its own: what lies around it is no business of its git.
		{"everything git sees", ".", Options{Hidden: true}, ".gitignore link n/ n/.lattice/ n/.lattice/x r/ r/.gitignore r/a.o r/loop r/sub/ r/sub/y s/ s/a.o"},
		{"no hidden names", ".", Options{}, "link n/ r/ r/a.o r/loop r/sub/ r/sub/y s/ s/a.o"},
		{"ignored ones, too", "r", Options{Ignored: true}, "r/a.o r/folder/ r/folder/deep/ r/folder/deep/file r/loop r/sub/ r/sub/x r/sub/y r/x r/y"},
		{"what lies above counts", "r/sub", Options{}, "r/sub/y"},
		{"an ignored folder that is asked for", "r/folder", Options{}, "r/folder/deep/ r/folder/deep/file"},
		{"folders that are not entered", "r", Options{Enter: func(string) bool { return false }}, "r/a.o r/loop r/sub/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := visited(t, root, tc.start, tc.options); got != tc.want {
				t.Errorf("visited %s, want %s", got, tc.want)
			}
		})
	}
	if _, err := Tree(t.Context(), root, "nope", Options{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Tree of nothing = %v", err)
	}
	if _, err := Tree(t.Context(), root, "a.o", Options{}, nil); err == nil {
		t.Error("Tree of a file is fine")
	}
}

// A .gitignore that is a symlink, a FIFO or a folder says nothing, and blocks nobody.
func TestPatternFilesThatAreNone(t *testing.T) {
	root, dir := plant(t, "patterns", "*", "a/x", "", "b/x", "", "c/.gitignore/x", "", "c/y", "")
	if err := errors.Join(os.Symlink("../patterns", filepath.Join(dir, "a/.gitignore")), syscall.Mkfifo(filepath.Join(dir, "b/.gitignore"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := visited(t, root, ".", Options{}); got != "a/ a/x b/ b/x c/ c/y patterns" {
		t.Errorf("visited %s", got)
	}
	if got := visited(t, root, "b", Options{}); got != "b/x" {
		t.Errorf("visited %s", got)
	}
}

func TestOpen(t *testing.T) {
	root, dir := plant(t, "a", "content", "d/x", "")
	if err := errors.Join(os.Symlink("a", filepath.Join(dir, "l")), syscall.Mkfifo(filepath.Join(dir, "p"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := Tree(t.Context(), root, ".", Options{}, func(_ int, e *Entry) error {
		// What was a file when it was listed may be anything by now.
		for _, kind := range []fs.FileMode{e.Type, 0} {
			listed := *e
			listed.Type = kind
			f, err := listed.Open()
			if e.Path != "a" && e.Path != "d/x" {
				if err == nil {
					t.Errorf("Open(%s) is fine", e.Path)
					f.Close()
				}
				continue
			}
			if err != nil {
				return err
			}
			data, err := io.ReadAll(f)
			f.Close()
			if err != nil || int64(len(data)) != f.Size() || e.Path == "a" && string(data) != "content" {
				t.Errorf("%s holds %q, %v, size %d", e.Path, data, err, f.Size())
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestErrorsAndCancellationEndAWalk(t *testing.T) {
	var files []string
	for i := range 500 {
		files = append(files, fmt.Sprintf("d%d/x", i), "")
	}
	root, _ := plant(t, files...)
	broken := errors.New("broken")
	if _, err := Tree(t.Context(), root, ".", Options{}, func(_ int, e *Entry) error {
		if e.Type.IsDir() {
			return nil
		}
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("Tree = %v, want the visit's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Tree(ctx, root, ".", Options{}, func(int, *Entry) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Tree = %v, want it cancelled", err)
	}
}

// A folder of very many files and very deep folders take no more memory than a few of them.
func TestMemoryIsBounded(t *testing.T) {
	root, dir := plant(t)
	const many = 20_000
	for i := range many {
		if err := os.Symlink("x", filepath.Join(dir, fmt.Sprintf("name-of-usual-length-%06d", i))); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	var mu sync.Mutex
	n := 0
	_, err := Tree(t.Context(), root, ".", Options{}, func(int, *Entry) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%(many/8) == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
		return nil
	})
	if grown := int64(most) - int64(before.HeapAlloc); err != nil || n != many || grown > 4<<20 {
		t.Errorf("visited %d, %v, with %d bytes more in use", n, err, grown)
	}
}
