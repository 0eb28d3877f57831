package git_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
)

// process is a call of a skill as a process of its own, ready to be started: by a link that bears its name.
func (b *bench) process(skill string, in input) *exec.Cmd {
	b.t.Helper()
	exe, err := os.Executable()
	b.ok(err)
	link := filepath.Join(b.t.TempDir(), skill)
	full := input{"engine": b.engine}
	maps.Copy(full, in)
	raw, err := json.Marshal(full)
	b.ok(err, os.Symlink(exe, link))
	return &exec.Cmd{
		Path: link, Args: []string{link}, Stdin: bytes.NewReader(raw), SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		Env: []string{"GOMAXPROCS=1", "LATTICE_WORKSPACE=" + b.dir, "LATTICE_SOCKET=", "PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"},
	}
}

// Whoever reads while others write sees the index and the refs whole, before a change or after it. Writers that meet are
// told so.
func TestReadersSeeNothingTorn(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		b := newBench(t)
		b.engine = engine
		b.repo()
		for i := range 200 {
			b.files(fmt.Sprintf("d%d/f%d", i%10, i), fmt.Sprint(i))
		}
		b.commitAll("many")
		const writers, rounds = 3, 4
		var committed atomic.Int32
		var work sync.WaitGroup
		for w := range writers {
			work.Go(func() {
				for i := range rounds {
					name := fmt.Sprintf("w%d-%d", w, i)
					b.files(name, name+"\n")
					for {
						o := b.call("git.add", input{"paths": []string{name}})
						if o.exit == 0 {
							o = b.call("git.commit", input{"message": name, "author": ada()})
						}
						if o.exit == 0 {
							committed.Add(1)
							break
						}
						if o.code() == "nothing_to_commit" { // another writer's commit took it along
							break
						}
						if o.code() != "busy" && o.code() != "head_moved" {
							t.Errorf("a writer: exit %d, %+v", o.exit, o.result.Error)
							return
						}
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { work.Wait(); close(done) }()
		reads := 0
		for running := true; running; reads++ {
			select {
			case <-done:
				running = false
			default:
			}
			for _, args := range [][]string{{"ls-files", "-s"}, {"status", "--porcelain"}, {"log", "-1", "--format=%H"}} {
				cmd := rawGit(filepath.Join(b.dir, "repo"), args...)
				cmd.Env = append(cmd.Env, "GIT_OPTIONAL_LOCKS=0")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("git %s: %v: %s", args[0], err, out)
				}
			}
			if o := b.call("git.status", nil); o.exit != 0 {
				t.Errorf("git.status: exit %d, %+v", o.exit, o.result.Error)
			}
		}
		b.git("repo", "fsck", "--strict")
		// git commit reads the index before it locks it, and may unstage what another git stages in between; the file stays.
		for line := range strings.Lines(b.git("repo", "status", "--porcelain")) {
			if engine != "system" || !strings.HasPrefix(line, "?? w") {
				t.Errorf("after %d reads something is not committed: %s", reads, line)
			}
		}
		if got := b.git("repo", "rev-list", "--count", "HEAD"); got != fmt.Sprint(committed.Load()+2) {
			t.Errorf("%s commits, want %d and the two from before", got, committed.Load())
		}
	})
}

// crashed are what is killed, each from a fresh copy of the same repository.
func crashed() []step {
	return []step{
		{"git.add", input{"all": true}},
		{"git.commit", input{"message": "killed", "all": true, "author": ada()}},
		{"git.checkout", input{"ref": "other"}},
	}
}

// crashBed makes repositories with work in them, and a branch to go to; refs is where their branches are.
func crashBed(t *testing.T, engine string) (fresh func() *bench, refs map[string]string) {
	b := newBench(t)
	b.merges()
	b.git("repo", "branch", "other", "a")
	b.files("a", "edited\n", "new/one", "1\n", "new/two", "2\n")
	b.git("repo", "add", "new/one")
	refs = map[string]string{}
	for _, ref := range []string{"main", "other"} {
		refs[ref] = b.git("repo", "rev-parse", ref)
	}
	return func() *bench {
		copied := newBench(t)
		copied.engine = engine
		copied.ok(os.CopyFS(copied.dir, os.DirFS(b.dir)))
		return copied
	}, refs
}

// survives checks a repository in which something was killed: git works, what was committed is there, and the same call
// made again, once the locks that git itself leaves are gone, does what it should.
func (b *bench) survives(built map[string]string, step step, when string) {
	b.t.Helper()
	dir := filepath.Join(b.dir, "repo")
	for _, args := range [][]string{{"fsck", "--strict", "--no-dangling"}, {"status", "--porcelain"}} {
		if out, err := rawGit(dir, args...).CombinedOutput(); err != nil {
			b.t.Fatalf("%s killed %s: git %s: %v\n%s", step.skill, when, args[0], err, out)
		}
	}
	for ref, before := range built {
		if after := b.git("repo", "rev-parse", ref); after == before {
			continue
		}
		if out, err := rawGit(dir, "merge-base", "--is-ancestor", before, ref).CombinedOutput(); err != nil {
			b.t.Fatalf("%s killed %s: %s lost %s: %s", step.skill, when, ref, before, out)
		}
	}
	for _, pattern := range []string{"*.lock", "refs/heads/*.lock"} {
		locks, err := filepath.Glob(filepath.Join(dir, ".git", pattern))
		b.ok(err)
		for _, lock := range locks {
			b.ok(os.Remove(lock))
		}
	}
	if step.skill == "git.checkout" {
		step.in = input{"ref": "other", "force": true}
	}
	o := b.call(step.skill, step.in)
	if o.exit != 0 && o.code() != "nothing_to_commit" { // it was done, but nobody was told
		b.t.Fatalf("%s killed %s and made again: exit %d, %+v", step.skill, when, o.exit, o.result.Error)
	}
	if step.skill != "git.checkout" {
		if got := b.read("repo/a") + b.read("repo/new/one") + b.read("repo/new/two"); got != "edited\n1\n2\n" {
			b.t.Fatalf("%s killed %s: the work tree holds %q", step.skill, when, got)
		}
	}
}

// Killed at any moment a skill leaves a repository that git can work with, and nothing that was committed is lost.
func TestKilledAtAnyMoment(t *testing.T) {
	onBoth(t, func(t *testing.T, name string) {
		fresh, refs := crashBed(t, name)
		for _, step := range crashed() {
			if name == engine.Native && step.skill == "git.checkout" {
				continue // unsupported
			}
			whole := fresh()
			cmd := whole.process(step.skill, step.in)
			began := time.Now()
			if out, err := cmd.Output(); err != nil {
				t.Fatalf("%s: %v\n%s", step.skill, err, out)
			}
			took := time.Since(began)
			const moments = 4
			for i := range moments {
				b := fresh()
				wait := took * time.Duration(i+1) / moments
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				cmd := b.process(step.skill, step.in)
				b.ok(cmd.Start())
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				select {
				case <-ctx.Done():
					b.kill(cmd.Process.Pid)
					<-ended
				case <-ended:
				}
				cancel()
				b.survives(refs, step, fmt.Sprintf("after %v", wait))
			}
		}
	})
}

// kill ends a skill and the git that it started, which leads a group of its own, and waits until git is gone. The skill is
// stopped first, so that it starts nothing between being looked at and being killed.
func (b *bench) kill(pid int) {
	b.t.Helper()
	_ = syscall.Kill(pid, syscall.SIGSTOP) // gone already is as good
	for !b.stopped(pid) {
		time.Sleep(time.Millisecond)
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	b.ok(err)
	var groups []int
	for _, list := range lists {
		children, _ := os.ReadFile(list) // its thread may be gone
		for _, child := range strings.Fields(string(children)) {
			var id int
			if _, err := fmt.Sscan(child, &id); err == nil {
				groups = append(groups, id)
			}
		}
	}
	for _, id := range groups {
		_ = syscall.Kill(-id, syscall.SIGKILL)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for _, id := range groups {
		// What nobody reaps stays as a zombie, which writes nothing.
		for looks := 0; looks < 5000 && syscall.Kill(-id, 0) == nil; looks++ {
			time.Sleep(time.Millisecond)
		}
	}
}

// stopped reports whether no thread of a process runs. One that starts a child stops only when that child has its own
// group and runs its program.
func (b *bench) stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	b.ok(err)
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it is gone
		}
		if state := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]; !strings.Contains("TtZX", state) {
			return false
		}
	}
	return true
}

// Killed right before any system call that changes a file, which is every boundary between two states of the disk, a skill
// leaves a repository as good.
func TestKilledAtEveryWrite(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace: nobody else can stop a process at a system call")
	}
	if err := exec.Command(strace, "-f", "-o", "/dev/null", "true").Run(); err != nil {
		t.Skipf("strace may not trace here: %v", err)
	}
	onBoth(t, func(t *testing.T, name string) {
		fresh, refs := crashBed(t, name)
		for _, step := range crashed()[1:] {
			if name == engine.Native && step.skill == "git.checkout" {
				continue // unsupported
			}
			for n := 1; ; n++ {
				const most = 60
				if n > most {
					t.Fatalf("%s still dies at change %d", step.skill, most)
				}
				b := fresh()
				cmd := b.process(step.skill, step.in)
				const changes = "rename,renameat,renameat2,link,linkat,unlink,unlinkat"
				cmd.Args = []string{strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + changes, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", changes, n), cmd.Path}
				cmd.Path = strace
				out, err := cmd.Output()
				if err == nil && bytes.Contains(out, []byte(`{"ok":true`)) {
					t.Logf("%s: %d changes", step.skill, n-1)
					break
				}
				b.survives(refs, step, fmt.Sprintf("before change %d", n))
			}
		}
	})
}
