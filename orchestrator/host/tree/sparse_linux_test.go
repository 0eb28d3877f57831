package tree_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// A file of 15 TiB that is one hole costs no time, and neither does comparing two.
func TestHolesAreNotRead(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		f, err := os.Create(filepath.Join(dir, "sparse"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(15 << 40); err != nil {
			t.Skipf("no such files here: %v", err)
		}
		for _, at := range []int64{5<<40 + 123, 15<<40 - 1} {
			if _, err := f.WriteAt([]byte("data"[:min(4, 15<<40-at)]), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(f.Close(), os.Chtimes(f.Name(), time.Unix(1, 0), time.Unix(1, 0))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	x, err := tree.Digest(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	if y, err := tree.Digest(ctx, b); err != nil || x != y {
		t.Errorf("equal trees: %+v, %+v, %v", x, y, err)
	}
	if err := tree.Same(ctx, []string{a}, []string{b}); err != nil {
		t.Error(err)
	}
	f, err := os.OpenFile(filepath.Join(b, "sparse"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 9<<40); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Chtimes(f.Name(), time.Unix(1, 0), time.Unix(1, 0))); err != nil {
		t.Fatal(err)
	}
	if y, err := tree.Digest(ctx, b); err != nil || x.Digest == y.Digest {
		t.Errorf("one byte in the hole changes nothing: %v", err)
	}
	if err := tree.Same(ctx, []string{a}, []string{b}); err == nil {
		t.Error("one byte in the hole is not seen")
	}
}

// Zeros count alike whether they are written or left out, by where they are; files without blocks of zeros have the digest
// that they had when everything was read.
func TestDigestsOfZeros(t *testing.T) {
	const block = 1 << 20
	data := make([]byte, block)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	digest := func(dense bool, blocks string, sparse bool, tail int) string {
		t.Helper()
		dir := t.TempDir()
		f, err := os.Create(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		for i, kind := range blocks {
			switch {
			case kind == 'd':
				_, err = f.WriteAt(data, int64(i)*block)
			case !sparse:
				_, err = f.WriteAt(make([]byte, block), int64(i)*block)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(f.Truncate(int64(len(blocks)*block+tail)), f.Close()); err != nil {
			t.Fatal(err)
		}
		take := tree.Digest
		if dense {
			take = tree.DenseDigest
		}
		sum, err := take(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return sum.Digest
	}
	seen := map[string]string{}
	for n := range 1 << 5 {
		blocks := ""
		for i := range 5 {
			blocks += string("zd"[n>>i&1])
		}
		for _, tail := range []int{0, 1, block - 1} {
			name := fmt.Sprint(blocks, tail)
			one := digest(false, blocks, true, tail)
			if two := digest(false, blocks, false, tail); one != two {
				t.Errorf("%s: written zeros and holes differ", name)
			}
			if other, taken := seen[one]; taken {
				t.Errorf("%s and %s have one digest", name, other)
			}
			seen[one] = name
		}
	}
	if digest(false, "ddd", false, 77) != digest(true, "ddd", false, 77) {
		t.Error("a file without zeros has another digest than before")
	}
}

// A tree that is deeper than paths are long, and than there are descriptors, has a digest.
func TestDigestOfADeepTree(t *testing.T) {
	const depth = 5000
	top := t.TempDir()
	build := func(last string) string {
		dir := filepath.Join(top, last)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range depth {
			name := "d"
			if i == depth-1 {
				name = last
			}
			if err := unix.Mkdirat(at, name, 0o755); err != nil {
				t.Fatal(err)
			}
			// A second one beside it shows that a digest goes on after it came back up.
			if err := unix.Mkdirat(at, "e", 0o755); err != nil {
				t.Fatal(err)
			}
			next, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(at)
			at = next
		}
		unix.Close(at)
		t.Cleanup(func() {
			if err := tree.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		sum, err := tree.Digest(t.Context(), dir)
		if err != nil || sum.Entries != 2*depth {
			t.Fatalf("digest = %+v, %v; want %d entries", sum, err, 2*depth)
		}
		return sum.Digest
	}
	if build("x") == build("y") {
		t.Error("what lies deepest does not count")
	}
}
