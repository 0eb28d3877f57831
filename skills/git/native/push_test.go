package native

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/git/engine"
)

// TestPushes pushes with both engines, to a path and over HTTP: equal answers, equal targets.
func TestPushes(t *testing.T) {
	ctx := context.Background()
	b := newBench(t)
	grow(b)
	tip, first, other := b.git("rev-parse", "main"), b.git("rev-parse", "light"), b.git("rev-parse", "other")
	tag := b.git("rev-parse", "v1")
	zero := "0"
	tests := map[string]struct {
		refs   []engine.PushRef
		want   []string
		remote bool // over HTTP, too
	}{
		"forward":            {[]engine.PushRef{{From: tip, To: "refs/heads/old"}}, []string{engine.PushOK}, true},
		"new branch":         {[]engine.PushRef{{From: tip, To: "refs/heads/new"}}, []string{engine.PushOK}, false},
		"new with deltas":    {[]engine.PushRef{{From: other, To: "refs/heads/a/b"}, {From: tip, To: "refs/heads/c"}}, []string{engine.PushOK, engine.PushOK}, true},
		"up to date":         {[]engine.PushRef{{From: first, To: "refs/heads/old"}}, []string{engine.PushUpToDate}, false},
		"not forward":        {[]engine.PushRef{{From: first, To: "refs/heads/ahead"}}, []string{engine.PushRejected}, true},
		"not forward, force": {[]engine.PushRef{{From: first, To: "refs/heads/ahead", Force: true}}, []string{engine.PushOK}, false},
		"lease kept":         {[]engine.PushRef{{From: first, To: "refs/heads/ahead", Expect: other}}, []string{engine.PushOK}, false},
		"lease broken":       {[]engine.PushRef{{From: tip, To: "refs/heads/old", Expect: other}}, []string{engine.PushRejected}, false},
		"lease of nothing":   {[]engine.PushRef{{From: tip, To: "refs/heads/old", Expect: zero}}, []string{engine.PushRejected}, false},
		"lease for new":      {[]engine.PushRef{{From: tip, To: "refs/heads/new", Expect: zero}}, []string{engine.PushOK}, false},
		"tag":                {[]engine.PushRef{{From: tag, To: "refs/tags/v1"}}, []string{engine.PushOK}, false},
		"one of two":         {[]engine.PushRef{{From: tip, To: "refs/heads/old"}, {From: first, To: "refs/heads/ahead"}}, []string{engine.PushOK, engine.PushRejected}, false},
	}
	for name, test := range tests {
		ways := []string{"path"}
		if test.remote {
			ways = append(ways, "http")
		}
		for _, way := range ways {
			t.Run(name+" by "+way, func(t *testing.T) {
				t.Parallel()
				b := &bench{t, b.root, b.dir}
				var state [2]string
				var answer [2][]engine.PushedRef
				native := b.native()
				defer native.Close()
				for i, r := range []engine.Repo{b.system(), native} {
					dir := t.TempDir()
					target := filepath.Join(dir, "target.git")
					b.git("init", "-q", "--bare", target)
					b.git("push", "-q", target, "light:refs/heads/old", "other:refs/heads/ahead")
					judge := &bench{t, b.root, target}
					judge.git("config", "http.receivepack", "true")
					to := engine.Source{URL: target, Protocol: "file", Local: true}
					if way == "http" {
						to = engine.Source{URL: serve(t, dir).URL + "/target.git", Protocol: "http"}
					}
					var err error
					if answer[i], err = r.Push(ctx, engine.PushSpec{To: to, Refs: test.refs}); err != nil {
						t.Fatal(err)
					}
					judge.sound()
					state[i] = judge.git("for-each-ref", "--format=%(refname) %(objectname)")
				}
				if state[0] != state[1] {
					t.Errorf("targets (-system +native):\n%s", cmp.Diff(state[0], state[1]))
				}
				for i, want := range test.want {
					theirs, ours := answer[0][i], answer[1][i]
					if ours.Status != want || theirs.Status != want || ours.Stale != theirs.Stale || ours.Ref != theirs.Ref || ours.New != theirs.New {
						t.Errorf("push = %+v, git says %+v, want %s", ours, theirs, want)
					}
				}
			})
		}
	}
}

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
