package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

func exitOf(err error) int {
	var e *skill.Error
	if errors.As(err, &e) {
		return e.Exit
	}
	return -1
}

func code(err error) string {
	var e *skill.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestLocksOfOthersAreRespected: whoever holds a lock of git's is waited for by the caller, and nothing changes.
func TestLocksOfOthersAreRespected(t *testing.T) {
	ctx := context.Background()
	add := func(r engine.Repo) error { _, err := r.Add(ctx, engine.AddSpec{All: true}); return err }
	commit := func(r engine.Repo) error { _, err := r.Commit(ctx, commitSpec("x\n")); return err }
	branch := func(r engine.Repo) error {
		return r.ChangeBranch(ctx, engine.BranchChange{Action: engine.BranchCreate, Name: "c"})
	}
	for _, test := range []struct {
		name, lock string
		do         func(engine.Repo) error
	}{
		{"add", "index.lock", add},
		{"commit, index", "index.lock", commit},
		{"commit, branch", "refs/heads/main.lock", commit},
		{"branch", "refs/heads/c.lock", branch},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.write("a", "1\n")
			b.git("add", "-A")
			b.git("commit", "-q", "-m", "first")
			b.git("branch", "b")
			b.git("pack-refs", "--all")
			b.write("a", "2\n")
			b.git("add", "-A")
			b.write("new", "3\n")
			before := b.git("for-each-ref") + b.git("ls-files", "-s")
			lock := filepath.Join(b.dir, ".git", test.lock)
			if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(lock, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := b.use(test.do); exitOf(err) != protocol.ExitBusy {
				t.Errorf("%s with %s held = %v, want busy", test.name, test.lock, err)
			}
			if _, err := os.Lstat(lock); err != nil {
				t.Errorf("the lock of another went: %v", err)
			}
			if after := b.git("for-each-ref") + b.git("ls-files", "-s"); after != before {
				t.Errorf("something changed:\n%s\n%s", before, after)
			}
			left, _ := filepath.Glob(filepath.Join(b.dir, ".git", "objects", "tmp_*"))
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			os.Remove(lock)
			if err := b.use(test.do); err != nil {
				t.Errorf("%s with the lock gone: %v", test.name, err)
			}
			b.sound()
		})
	}
}
