package git_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/skill"
)

// counted puts a git before the real one that notes each start, installed as git is: known to be recent without being
// asked. calls returns what was started since the last time, by sub-command.
func (b *bench) counted() (calls func() []string) {
	b.t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		b.t.Skipf("no git: %v", err)
	}
	prefix := b.t.TempDir()
	log := filepath.Join(prefix, "log")
	script := fmt.Sprintf("#!/bin/sh\nfor a; do printf '%%s ' \"$a\"; done >>%s\necho >>%s\nexec %s \"$@\"\n", log, log, real)
	b.ok(os.MkdirAll(filepath.Join(prefix, "bin"), 0o755), os.MkdirAll(filepath.Join(prefix, "lib/git-core"), 0o755))
	installed := time.Unix(1, 0)
	for _, name := range []string{"bin/git", "lib/git-core/git", "lib/git-core/git-for-each-repo"} {
		file := filepath.Join(prefix, name)
		b.ok(os.WriteFile(file, []byte(script), 0o755), os.Chtimes(file, installed, installed))
	}
	b.env.Child = []string{"PATH=" + filepath.Join(prefix, "bin") + ":" + os.Getenv("PATH")}
	return func() (started []string) {
		data, err := os.ReadFile(log)
		if err != nil {
			return nil
		}
		b.ok(os.Remove(log))
		for line := range strings.Lines(string(data)) {
			words := strings.Fields(line)
			for i := 0; i < len(words); i++ {
				if words[i] == "-c" {
					i++
				} else if !strings.HasPrefix(words[i], "-") {
					started = append(started, words[i])
					break
				}
			}
		}
		return started
	}
}

// A process is a millisecond and more: what a verb costs over git's own command is how many it starts. The numbers are
// promises; they fall, they do not rise.
func TestVerbsStartFewProcesses(t *testing.T) {
	b := newBench(t)
	b.env.Grants = skill.Grants{All: true}
	b.repo()
	b.git(".", "clone", "-q", "--bare", "repo", "bare.git")
	b.git("repo", "branch", "other")
	calls := b.counted()
	ada := input{"name": "Ada", "email": "ada@example.com"}
	for _, tc := range []struct {
		name string
		verb string
		in   input
		most int
	}{
		{"clone", "git.clone", input{"url": "bare.git", "dest": "copy"}, 1},
		{"clone again", "git.clone", input{"url": "bare.git", "dest": "copy"}, 1},
		{"clone, stored under another URL", "git.clone", input{"url": "bare.git", "dest": "named", "remote_url": "https://example.com/a"}, 2},
		{"status", "git.status", nil, 1},
		{"log", "git.log", nil, 1},
		{"diff", "git.diff", nil, 1},
		{"branches", "git.branch", nil, 1},
		{"create a branch", "git.branch", input{"action": "create", "name": "new"}, 2},
		{"check out", "git.checkout", input{"ref": "other"}, 2},
		{"check out a new branch", "git.checkout", input{"ref": "newer", "create": true}, 1},
		{"add", "git.add", input{"all": true}, 2},
		{"add a path", "git.add", input{"paths": []string{"x"}}, 2},
		{"commit", "git.commit", input{"message": "m", "author": ada}, 1},
		{"commit all", "git.commit", input{"message": "m", "author": ada, "all": true}, 2},
		{"fetch", "git.fetch", input{"repo": "copy"}, 1},
		{"work trees", "git.worktree", nil, 1},
		{"add a work tree", "git.worktree", input{"action": "add", "dest": "wt", "branch": "wt"}, 2},
	} {
		b.write("repo/x", tc.name)
		calls()
		b.must(tc.verb, tc.in)
		if started := calls(); len(started) > tc.most {
			t.Errorf("%s starts %d: %v; want at most %d", tc.name, len(started), started, tc.most)
		}
	}
	b.write("copy/x", "1")
	b.must("git.commit", input{"repo": "copy", "all": true, "message": "m", "author": ada})
	calls()
	b.must("git.push", input{"repo": "copy", "mode": "direct"})
	if started := calls(); len(started) > 4 {
		t.Errorf("a direct push starts %d: %v", len(started), started)
	}
	// A retried commit finds itself without asking.
	b.env.IdempotencyKey = "key"
	b.must("git.commit", input{"allow_empty": true, "message": "m", "author": ada})
	calls()
	if again := b.must("git.commit", input{"allow_empty": true, "message": "m", "author": ada}); again["already"] != true || len(calls()) > 1 {
		t.Errorf("a retried commit = %v", again)
	}
}
