package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// base gives a bench two commits.
func base(b *bench) {
	b.Helper()
	b.write("a", "1\n")
	b.write("d/b", "1\n")
	b.write("sh", "#!/bin/sh\n")
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "first")
	b.write("a", "2\n")
	b.git("commit", "-q", "-a", "-m", "second")
}

// TestProbes are states in which other implementations are known to differ from git. In each, status, staging everything and
// committing it come out as with git; or the engine says that it cannot.
func TestProbes(t *testing.T) {
	ctx := context.Background()
	other := func(b *bench) string {
		dir := filepath.Join(b.root.Dir(), "other")
		b.git("worktree", "add", "-q", "-b", "linked", dir)
		return dir
	}
	for _, test := range []struct {
		name    string
		setup   func(b *bench)
		refused bool // by the engine, from the start
		unadded bool // status is right, staging is refused
	}{
		{"untracked and ignored", func(b *bench) {
			b.write(".gitignore", "*.o\n/ign/\n")
			b.write("x.o", "o")
			b.write("ign/k", "k")
			b.write("new", "n")
		}, false, false},
		{"exclude file", func(b *bench) {
			b.write(".git/info/exclude", "secret\n")
			b.write("secret", "s")
			b.write("d/secret", "s")
		}, false, false},
		{"nested and negated ignores", func(b *bench) {
			b.write(".gitignore", "*.log\n!keep.log\nd/*\n!d/c\n")
			b.write("d/.gitignore", "!x.log\n")
			b.write("d/c", "c")
			b.write("d/x.log", "x")
			b.write("keep.log", "k")
			b.write("e/f.log", "f")
		}, false, false},
		{"unborn", func(b *bench) { b.git("checkout", "-q", "--orphan", "fresh") }, false, false},
		{"detached", func(b *bench) { b.git("checkout", "-q", "--detach"); b.write("a", "3\n") }, false, false},
		{"assume unchanged", func(b *bench) {
			b.git("update-index", "--assume-unchanged", "a")
			b.write("a", "3\n")
			b.write("n", "n")
		}, true, false},
		{"skip worktree", func(b *bench) {
			b.git("update-index", "--skip-worktree", "a")
			os.Remove(filepath.Join(b.dir, "a"))
			b.write("n", "n")
		}, true, false},
		{"intent to add", func(b *bench) { b.write("n", "n\n"); b.git("add", "-N", "n") }, true, false},
		{"file mode off", func(b *bench) {
			b.git("config", "core.fileMode", "false")
			os.Chmod(filepath.Join(b.dir, "a"), 0o755)
			b.write("n", "n")
		}, false, false},
		{"mode", func(b *bench) { os.Chmod(filepath.Join(b.dir, "a"), 0o755) }, false, false},
		{"index version 4", func(b *bench) { b.git("update-index", "--index-version", "4"); b.write("n", "n") }, true, false},
		{"untracked cache", func(b *bench) { b.git("update-index", "--untracked-cache"); b.git("status"); b.write("n", "n") }, false, false},
		{"linked work tree", func(b *bench) { b.dir = other(b); b.write("a", "3\n") }, true, false},
		{"merge in progress", func(b *bench) {
			b.git("checkout", "-q", "-b", "side", "HEAD~1")
			b.write("n", "n\n")
			b.git("add", "-A")
			b.git("commit", "-q", "-m", "side")
			b.git("checkout", "-q", "main")
			b.git("merge", "-q", "--no-commit", "--no-ff", "side")
		}, false, false},
		{"files and folders change places", func(b *bench) {
			os.RemoveAll(filepath.Join(b.dir, "d"))
			os.Remove(filepath.Join(b.dir, "a"))
			b.write("d", "now a file\n")
			b.write("a/b/c", "now a folder\n")
		}, false, false},
		{"symlinks", func(b *bench) {
			os.Remove(filepath.Join(b.dir, "a"))
			os.Symlink("/etc/passwd", filepath.Join(b.dir, "a"))
			os.RemoveAll(filepath.Join(b.dir, "d"))
			os.Symlink("..", filepath.Join(b.dir, "d"))
		}, false, false},
		{"odd times", func(b *bench) {
			for name, seconds := range map[string]int64{"a": -1, "before": -1 << 31, "beginning": 0, "beyond": 1 << 33} {
				b.write(name, "x\n")
				at := time.Unix(seconds, 0)
				if err := os.Chtimes(filepath.Join(b.dir, name), at, at); err != nil {
					b.Fatalf("%v", err)
				}
			}
		}, false, false},
		{"odd files", func(b *bench) {
			b.write("tab\there", "x")
			b.write("new\nline", "x")
			b.write("\xff\xfe", "x")
			b.write("-n", "x")
		}, false, false},
		{"alternates", func(b *bench) {
			dir := filepath.Join(b.root.Dir(), "borrower")
			b.git("clone", "-q", "-s", b.dir, dir)
			b.dir = dir
			b.write("a", "3\n")
		}, true, false},
		{"text attributes without effect", func(b *bench) {
			b.write(".gitattributes", "* text=auto\n*.png binary\n")
			b.write("i.png", "\x89PNG\r\n\x1a\n\x00")
			b.write("t", "t\n")
		}, false, false},
		{"CR LF that git would convert", func(b *bench) { b.write(".gitattributes", "* text=auto\n"); b.write("t", "t\r\n") }, false, true},
		{"autocrlf input", func(b *bench) { b.git("config", "core.autocrlf", "input"); b.write("t", "t\r\n") }, true, false},
		{"filter", func(b *bench) { b.write(".gitattributes", "*.bin filter=lfs -text\n"); b.write("x.bin", "large") }, false, true},
		{"filter after a tab", func(b *bench) { b.write(".gitattributes", "*.bin\tfilter=lfs -text\n"); b.write("x.bin", "large") }, false, true},
		{"filter after a quoted pattern", func(b *bench) {
			b.write(".gitattributes", "\"x \\\"y.bin\"filter=lfs\n")
			b.write("x \"y.bin", "large")
		}, false, true},
		{"many attributes", func(b *bench) { // each with a copy of those before would take hours
			b.write(".gitattributes", strings.Repeat("x text\n", 1<<17))
			b.write("t", "t\n")
		}, false, false},
		{"ident", func(b *bench) { b.write(".gitattributes", "k ident\n"); b.write("k", "$Id: old $\n") }, false, true},
		{"repository inside", func(b *bench) { b.git("init", "-q", "in"); b.write("in/x", "x"); b.write("n", "n") }, false, true},
		{"conflict", func(b *bench) { conflict(b) }, true, false},
		{"rebase", func(b *bench) {
			b.git("checkout", "-q", "-b", "side", "HEAD~1")
			b.write("a", "side\n")
			b.git("commit", "-q", "-a", "-m", "side")
			tryGit(b.dir, "rebase", "main")
		}, true, false},
		{"sparse", func(b *bench) { b.git("sparse-checkout", "set", "d") }, true, false},
		{"split index", func(b *bench) { b.git("update-index", "--split-index") }, true, false},
		{"partial clone", func(b *bench) {
			b.git("config", "core.repositoryformatversion", "1")
			b.git("config", "extensions.partialClone", "origin")
		}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			base(b)
			test.setup(b)
			if test.refused {
				r, err := Engine{}.Open(ctx, b.location())
				if err == nil {
					_, err = r.Status(ctx, engine.StatusSpec{Untracked: "normal"})
					r.Close()
				}
				if exitOf(err) != protocol.ExitUnsupported {
					t.Errorf("status = %v, want unsupported", err)
				}
				return
			}
			for _, untracked := range []string{"normal", "all", "no"} {
				b.sameStatus(engine.StatusSpec{Untracked: untracked})
			}
			b.sameStatus(engine.StatusSpec{Untracked: "normal", Ignored: true})
			b.sameStatus(engine.StatusSpec{Untracked: "all", Ignored: true})
			b.sameStatus(engine.StatusSpec{Untracked: "normal", Paths: []string{"d", "new", "a"}})
			// What git makes of it, in a copy.
			copied := filepath.Join(t.TempDir(), "copy")
			before := b.git("ls-files", "-s")
			want, wantErr := stagedByGit(b, copied)
			err := b.use(func(r engine.Repo) error { _, err := r.Add(ctx, engine.AddSpec{All: true}); return err })
			switch got := b.git("ls-files", "-s", "-v"); {
			case test.unadded:
				if exitOf(err) != protocol.ExitUnsupported || b.git("ls-files", "-s") != before {
					t.Errorf("add = %v, want unsupported and nothing staged", err)
				}
				return
			case err != nil || wantErr != nil:
				t.Fatalf("add = %v; git: %v", err, wantErr)
			case got != want:
				t.Errorf("staged:\n%s\ngit stages:\n%s", got, want)
			}
			tree := b.git("write-tree")
			merging, _ := os.ReadFile(b.git("rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD"))
			head, _ := tryGit(b.dir, "rev-parse", "-q", "--verify", "HEAD")
			var done engine.Committed
			err = b.use(func(r engine.Repo) error {
				spec := commitSpec("all of it\n")
				spec.AllowEmpty = true
				done, err = r.Commit(ctx, spec)
				return err
			})
			if len(merging) > 0 {
				if exitOf(err) != protocol.ExitUnsupported {
					t.Errorf("commit = %v, want unsupported", err)
				}
				return
			}
			if err != nil || done.Tree != tree {
				t.Fatalf("commit = %+v, %v; want the tree %s", done, err, tree)
			}
			if parents := strings.Join(done.Parents, "\n"); strings.TrimSpace(head+string(merging)) != parents {
				t.Errorf("parents = %q, want %q", parents, head+string(merging))
			}
			if log := b.git("reflog", "-1", "--format=%gs %H"); !strings.HasPrefix(log, "commit") || !strings.HasSuffix(log, done.Commit) {
				t.Errorf("HEAD's log ends with %q", log)
			}
			if _, err := os.Lstat(b.git("rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("MERGE_HEAD is left: %v", err)
			}
			b.sameStatus(engine.StatusSpec{Untracked: "all", Ignored: true})
			b.sound()
		})
	}
}

// stagedByGit lets git stage everything in an index of its own.
func stagedByGit(b *bench, index string, paths ...string) (string, error) {
	real := b.git("rev-parse", "--path-format=absolute", "--git-path", "index")
	data, err := os.ReadFile(real)
	if err != nil {
		b.Fatalf("%v", err)
	}
	if err := os.WriteFile(index, data, 0o644); err != nil {
		b.Fatalf("%v", err)
	}
	// With another time of its own the copy would vouch for files that changed in the moment the index was written.
	info, err := os.Stat(real)
	if err != nil {
		b.Fatalf("%v", err)
	}
	if err := os.Chtimes(index, info.ModTime(), info.ModTime()); err != nil {
		b.Fatalf("%v", err)
	}
	if out, err := tryGitEnv(b.dir, []string{"GIT_INDEX_FILE=" + index}, append([]string{"add", "-A", "--"}, paths...)...); err != nil {
		return out, err
	}
	out, err := tryGitEnv(b.dir, []string{"GIT_INDEX_FILE=" + index}, "ls-files", "-s", "-v")
	return strings.TrimSuffix(out, "\n"), err
}

// TestAddOfPathsIsGitsOwn compares what both engines stage for paths, in each way in which they can be written.
func TestAddOfPathsIsGitsOwn(t *testing.T) {
	ctx := context.Background()
	for name, test := range map[string]struct {
		setup func(b *bench)
		paths []string
	}{
		"a file in a folder that took the place of a file": {func(b *bench) {
			os.Remove(filepath.Join(b.dir, "a"))
			b.write("a/b/c", "c\n")
			b.write("a/x", "x\n")
		}, []string{"a/b"}},
		"a file that took the place of a folder": {func(b *bench) { os.RemoveAll(filepath.Join(b.dir, "d")); b.write("d", "d\n") }, []string{"d"}},
		"dots":                                   {nil, []string{"./n"}},
		"slashes":                                {nil, []string{"e//f"}},
		"a folder with a slash":                  {nil, []string{"e/"}},
		"a new folder with a slash":              {nil, []string{"e/g/"}},
		"a gone folder with a slash":             {func(b *bench) { os.RemoveAll(filepath.Join(b.dir, "d")) }, []string{"d/"}},
		"all with a slash":                       {nil, []string{"./"}},
		"a new file with a slash":                {nil, []string{"n/"}},
		"a file with a slash":                    {nil, []string{"a/"}},
		"a longer name":                          {nil, []string{"e/fo"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			base(b)
			b.write("n", "n\n")
			b.write("e/f", "f\n")
			b.write("e/g/h", "h\n")
			b.write("a.b", "b\n")
			if test.setup != nil {
				test.setup(b)
			}
			want, wantErr := stagedByGit(b, filepath.Join(t.TempDir(), "copy"), test.paths...)
			for _, untracked := range []string{"normal", "all"} {
				b.sameStatus(engine.StatusSpec{Untracked: untracked, Paths: test.paths})
			}
			err := b.use(func(r engine.Repo) error { _, err := r.Add(ctx, engine.AddSpec{Paths: test.paths}); return err })
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("add = %v; git: %v %s", err, wantErr, want)
			}
			if got := b.git("ls-files", "-s", "-v"); err == nil && got != want {
				t.Errorf("staged:\n%s\ngit stages:\n%s", got, want)
			}
		})
	}
}

func conflict(b *bench) {
	b.Helper()
	for _, c := range [][2]string{{"side", "side\n"}, {"main", "main\n"}} {
		if c[0] == "side" {
			b.git("checkout", "-q", "-b", "side", "HEAD~1")
			b.git("rm", "-q", "d/b")
		} else {
			b.git("checkout", "-q", "main")
			b.write("d/b", "ours\n")
		}
		b.write("a", c[1])
		b.write("both", c[1])
		b.git("add", "-A")
		b.git("commit", "-q", "-m", c[0])
	}
	if _, err := tryGit(b.dir, "merge", "-q", "side"); err == nil {
		b.Fatalf("there is no conflict")
	}
}
