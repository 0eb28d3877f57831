package native

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
)

// TestPacksHoldWhatIsMissing: a pack onto known history holds the new objects and no others.
func TestPacksHoldWhatIsMissing(t *testing.T) {
	b := newBench(t)
	grow(b)
	var out bytes.Buffer
	b.must(func(r engine.Repo) error {
		return r.Bundle(context.Background(), engine.BundleSpec{Base: b.git("rev-parse", "main~1"), Ref: "refs/heads/main"}, &out)
	})
	_, pack, _ := bytes.Cut(out.Bytes(), []byte("\n\n"))
	if n := binary.BigEndian.Uint32(pack[8:]); n != 3 {
		t.Errorf("the pack has %d objects; want a commit, a tree and a blob", n)
	}
}

func TestBundleIsGitsOwn(t *testing.T) {
	b := newBench(t)
	grow(b)
	base := b.git("rev-parse", "main~3")
	var out bytes.Buffer
	b.must(func(r engine.Repo) error {
		return r.Bundle(context.Background(), engine.BundleSpec{Base: base, Ref: "refs/heads/main"}, &out)
	})
	file := filepath.Join(b.root.Dir(), "x.bundle")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	b.git("bundle", "verify", "-q", file)
	b.git("clone", "-q", "--bare", "--depth=1", "file://"+b.dir, filepath.Join(b.root.Dir(), "bare"))
	c := &bench{t, b.root, filepath.Join(b.root.Dir(), "seed")}
	b.git("init", "-q", c.dir)
	c.git("fetch", "-q", b.dir, base)
	c.git("fetch", "-q", file, "refs/heads/main:refs/heads/x")
	if got, want := c.git("rev-parse", "x"), b.git("rev-parse", "main"); got != want {
		t.Errorf("the bundle leads to %s, want %s", got, want)
	}
	c.sound()
}
