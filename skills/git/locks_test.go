package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lockVerbs names each lock of git, and a verb that needs it.
func lockVerbs() []struct {
	lock, verb string
	in         input
} {
	ada := input{"name": "Ada", "email": "ada@example.com"}
	return []struct {
		lock, verb string
		in         input
	}{
		{"index.lock", "git.commit", input{"message": "m", "author": ada, "all": true}},
		{"HEAD.lock", "git.commit", input{"message": "m", "author": ada, "all": true}},
		{"refs/heads/main.lock", "git.commit", input{"message": "m", "author": ada, "all": true}},
		{"refs/heads/a/b.lock", "git.branch", input{"action": "create", "name": "a/b"}},
		{"packed-refs.lock", "git.branch", input{"action": "delete", "name": "old", "force": true}},
		{"config.lock", "git.branch", input{"action": "create", "name": "tracking", "start_point": "origin/main"}},
		{"shallow.lock", "git.fetch", input{"depth": 1}},
		{"refs/remotes/origin/main.lock", "git.fetch", nil},
		{"index.lock", "git.add", input{"all": true}},
	}
}

// stale makes a clone with something to commit, branches and an origin that is ahead, and leaves a lock in it.
func (b *bench) stale(lock string) string {
	b.t.Helper()
	b.repo()
	b.git(".", "clone", "-q", "--bare", "repo", "bare.git")
	b.git("repo", "remote", "add", "origin", "file://"+filepath.Join(b.dir, "bare.git"))
	b.git("repo", "fetch", "-q")
	b.git("repo", "branch", "old")
	b.git("repo", "pack-refs", "--all")
	b.git(".", "clone", "-q", "bare.git", "ahead")
	b.git("ahead", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "--allow-empty", "-m", "ahead")
	b.git("ahead", "push", "-q")
	b.write("repo/x", lock)
	name := filepath.Join(b.dir, "repo/.git", lock)
	b.ok(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644))
	return name
}

// TestLocksOfKilledProcesses: a lock that a killed process left is removed in a sprite, and the verb succeeds. Outside of sprites, where
// not all processes are visible, it stays.
func TestLocksOfKilledProcesses(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		for _, c := range lockVerbs() {
			t.Run(strings.ReplaceAll(c.lock, "/", " ")+" "+c.verb, func(t *testing.T) {
				b := newBench(t)
				b.engine = engine
				name := b.stale(c.lock)
				b.env.SpriteID = ""
				if o := b.call(c.verb, c.in); o.exit != 0 && o.code() != "busy" && o.code() != "branch_failed" && o.code() != "unsupported" {
					t.Errorf("outside of a sprite: exit %d, %+v", o.exit, o.result.Error)
				}
				if _, err := os.Lstat(name); err != nil {
					t.Errorf("outside of a sprite: %v", err)
				}
				b = newBench(t)
				b.engine = engine
				name = b.stale(c.lock)
				o := b.call(c.verb, c.in)
				if o.code() == "unsupported" {
					return
				}
				if o.exit != 0 || !strings.Contains(o.stdout, "stale_lock_removed") {
					t.Errorf("exit %d, %s", o.exit, o.stdout)
				}
				if _, err := os.Lstat(name); err == nil {
					t.Error("the lock is left")
				}
			})
		}
	})
}

// TestLocksOfTheLiving: a lock stays while a process has it open, or while a git works on the repository, from wherever it was started,
// also if it has closed the lock. A git elsewhere does not count, nor does one that is dead and not yet reaped.
func TestLocksOfTheLiving(t *testing.T) {
	for _, c := range []struct {
		name, command string
		stays         bool
	}{
		{"open", "exec 3<repo/.git/index.lock; touch $STARTED; exec sleep 60", true},
		{"a hook", "cd repo && exec git -c alias.wait='!touch $STARTED; sleep 60' wait", true},
		{"by option", "cd / && exec git --git-dir=$OLDPWD/repo/.git -c alias.wait='!touch $STARTED; sleep 60' wait", true},
		{"by variable", "cd link && GIT_DIR=../repo/.git exec git -c alias.wait='!touch $STARTED; sleep 60' wait", true},
		{"by a link", "cd link && exec git --git-dir alias -c alias.wait='!touch $STARTED; sleep 60' wait", true},
		{"elsewhere", "cd ahead && exec git -c alias.wait='!touch $STARTED; sleep 60' wait", false},
		{"dead", "(cd repo && exec git -c alias.wait='!kill -9 $PPID; sleep 0.5; touch $STARTED' wait) & exec sleep 60", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			name := b.stale("index.lock")
			b.ok(os.Mkdir(filepath.Join(b.dir, "link"), 0o755), os.Symlink("../repo/.git", filepath.Join(b.dir, "link/alias")))
			cmd := exec.Command("sh", "-c", c.command)
			started := filepath.Join(b.dir, "started")
			cmd.Env = append(os.Environ(), "STARTED="+started)
			cmd.Dir, cmd.SysProcAttr = b.dir, &syscall.SysProcAttr{Setpgid: true}
			b.ok(cmd.Start())
			defer func() { _, _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL), cmd.Wait() }()
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(started); err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the process does not start")
				}
			}
			o := b.call("git.add", input{"all": true})
			if _, err := os.Lstat(name); (err == nil) != c.stays || (o.code() == "busy") != c.stays {
				t.Errorf("exit %d, %s; the lock: %v", o.exit, o.stdout, err)
			}
		})
	}
}
