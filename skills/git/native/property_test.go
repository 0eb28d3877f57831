package native

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/spritekit/lattice/skills/git/engine"
)

// edit changes the work tree at random.
func edit(t *rapid.T, dir string) {
	names := []string{"a", "b", "d/a", "d/b", "d/e/f", "a.o", "x/.gitignore", "x/k", ".gitignore", "sp ace", "-o", "ü", "l"}
	name := rapid.SampledFrom(names).Draw(t, "name")
	file := filepath.Join(dir, name)
	content := rapid.SampledFrom([]string{"", "1\n", "2\n", "one\ntwo\nthree\n", "*.o\n", "/x/\n!x/k\n", "d/e\n", "k\n"}).Draw(t, "content")
	clear := func() {
		for at := filepath.Dir(file); at != dir; at = filepath.Dir(at) {
			if info, err := os.Lstat(at); err == nil && !info.IsDir() {
				os.Remove(at)
			}
		}
		os.RemoveAll(file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	switch rapid.SampledFrom([]string{"write", "write", "write", "link", "remove", "mode", "touch", "folder", "rename"}).Draw(t, "edit") {
	case "write":
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
			clear()
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	case "link":
		clear()
		if err := os.Symlink(rapid.SampledFrom([]string{"a", "d", "nowhere"}).Draw(t, "target"), file); err != nil {
			t.Fatal(err)
		}
	case "remove":
		os.RemoveAll(file)
	case "mode":
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			os.Chmod(file, info.Mode()^0o111)
		}
	case "touch":
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			data, _ := os.ReadFile(file)
			os.WriteFile(file, data, 0o644)
		}
	case "folder":
		clear()
		os.Mkdir(file, 0o755)
	case "rename":
		os.Rename(file, filepath.Join(dir, "moved"))
	}
}

// TestRandomWork lets git and the engine take turns in one repository, with edits between, and compares what each sees,
// and what each makes of the same state.
func TestRandomWork(t *testing.T) {
	requireGit(t)
	ctx := context.Background()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue { // each check runs git some fifty times
		if err := f.Value.Set("12"); err != nil {
			t.Fatal(err)
		}
		defer f.Value.Set(f.DefValue)
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "native-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		b := benchIn(t, dir)
		for i := range rapid.IntRange(1, 6).Draw(t, "rounds") {
			for range rapid.IntRange(1, 5).Draw(t, "edits") {
				edit(t, b.dir)
			}
			b.sameStatus(engine.StatusSpec{Untracked: rapid.SampledFrom([]string{"normal", "all", "no"}).Draw(t, "untracked")})
			native := rapid.Bool().Draw(t, "native")
			all := rapid.Bool().Draw(t, "all")
			if native {
				b.must(func(r engine.Repo) error {
					_, err := r.Add(ctx, engine.AddSpec{All: all, Update: !all})
					return err
				})
			} else if all {
				b.git("add", "--all")
			} else {
				b.git("add", "--update")
			}
			b.sameStatus(engine.StatusSpec{Untracked: "normal"})
			if clean := b.git("diff", "--cached", "--name-only"); clean == "" {
				continue
			}
			message := fmt.Sprintf("round %d\n\nbody\n", i)
			if !native {
				b.git("commit", "-q", "--cleanup=verbatim", "-m", message)
				continue
			}
			tree := b.git("write-tree")
			args := []string{"commit-tree", tree, "-m", "round " + fmt.Sprint(i), "-m", "body"}
			if head, err := tryGit(b.dir, "rev-parse", "-q", "--verify", "HEAD"); err == nil {
				args = append(args, "-p", head[:40])
			}
			want := b.git(args...)
			var done engine.Committed
			b.must(func(r engine.Repo) error {
				done, err = r.Commit(ctx, commitSpec(message))
				return err
			})
			if done.Commit != want {
				t.Fatalf("commit %s, git makes it %s", done.Commit, want)
			}
			b.sameStatus(engine.StatusSpec{Untracked: "all"})
		}
		b.sound()
		want, err := b.system().Log(ctx, engine.LogSpec{Max: 50, Stats: true})
		if err != nil {
			t.Fatal(err)
		}
		var got engine.Log
		b.must(func(r engine.Repo) error { got, err = r.Log(ctx, engine.LogSpec{Max: 50, Stats: true}); return err })
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(engine.Stats{})); diff != "" {
			t.Fatalf("log (-git +native):\n%s", diff)
		}
	})
}
