package git_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What a commit is said to change is what git counts without looking for renames, whatever git commit itself says of it.
func TestCommitCountsAsNumstat(t *testing.T) {
	long := strings.Repeat("a line that stays\n", 40)
	for _, tc := range []struct {
		name   string
		change func(b *bench)
		in     input
	}{
		{"edit", func(b *bench) { b.write("repo/README.md", "x\ny\n") }, nil},
		{"rename", func(b *bench) { b.git("repo", "mv", "long", "elsewhere") }, nil},
		{"rename and edit", func(b *bench) { b.git("repo", "mv", "long", "elsewhere"); b.write("repo/elsewhere", long+"more\n") }, nil},
		{"rewrite", func(b *bench) { b.write("repo/long", strings.Repeat("nothing of it is left\n", 50)) }, nil},
		{"copy", func(b *bench) { b.write("repo/copy", long); b.write("repo/long", long+"more\n") }, nil},
		{"binary", func(b *bench) { b.write("repo/bin", "\x00\x01\x02\n\n") }, nil},
		{"only a mode", func(b *bench) { b.ok(os.Chmod(filepath.Join(b.dir, "repo/long"), 0o755)) }, nil},
		{"a link in place of a file", func(b *bench) {
			b.ok(os.Remove(filepath.Join(b.dir, "repo/long")), os.Symlink("README.md", filepath.Join(b.dir, "repo/long")))
		}, nil},
		{"delete", func(b *bench) { b.remove("long") }, nil},
		{"odd names", func(b *bench) {
			b.write("repo/ 1 file changed, 9 insertions(+)\n rename a => b", "1\n")
			b.write("repo/\"ü\"", "1\n")
		}, nil},
		{"odd subject", func(b *bench) { b.write("repo/a", "1\n") }, input{"message": "] 7 files changed, 1 insertion(+)\n 8 files changed"}},
		{"another committer", func(b *bench) { b.write("repo/a", "1\n") }, input{"committer": input{"name": "1 file changed, 5 insertions(+)", "email": "b@example.com"}, "date": "2026-02-03T04:05:06+02:00"}},
		{"amended", func(b *bench) { b.write("repo/a", "1\n") }, input{"amend": true}},
		{"nothing", func(*bench) {}, input{"allow_empty": true}},
		{"detached", func(b *bench) { b.git("repo", "checkout", "-q", "--detach"); b.write("repo/a", "1\n") }, nil},
		{"merge", func(b *bench) {
			b.git("repo", "checkout", "-q", "-b", "side")
			b.write("repo/side", "1\n2\n")
			b.commitAll("side")
			b.git("repo", "checkout", "-q", "main")
			b.git("repo", "merge", "-q", "--no-ff", "--no-commit", "side")
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.repo()
			b.write("repo/long", long)
			b.commitAll("long")
			tc.change(b)
			in := input{"message": "m", "author": input{"name": "Ada", "email": "ada@example.com"}, "all": true, "engine": "system"}
			for k, v := range tc.in {
				in[k] = v
			}
			data := b.must("git.commit", in)
			files, added, deleted := 0, 0, 0
			for line := range strings.Lines(b.git("repo", "log", "-1", "-m", "--first-parent", "--no-renames", "--numstat", "--format=")) {
				if fields := strings.Split(line, "\t"); len(fields) == 3 {
					a, _ := strconv.Atoi(fields[0]) // a binary file has "-"
					d, _ := strconv.Atoi(fields[1])
					files, added, deleted = files+1, added+a, deleted+d
				}
			}
			if data["files_changed"] != float64(files) || data["additions"] != float64(added) || data["deletions"] != float64(deleted) || data["empty"] != (files == 0) {
				t.Errorf("git.commit = %v, git counts %d files, +%d -%d", data, files, added, deleted)
			}
			if data["commit"] != b.git("repo", "rev-parse", "HEAD") || data["tree"] != b.git("repo", "rev-parse", "HEAD^{tree}") {
				t.Errorf("git.commit = %v", data)
			}
		})
	}
}
