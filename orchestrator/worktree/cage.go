package worktree

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// limits are the resource limits of a git process that reads objects of a sprite, and of each of its children (DESIGN 34).
// A small pack can contain objects that need any amount of memory, and a few trees can describe any number of paths: the
// kernel ends a git that exceeds a limit, and the request is refused with limit_exceeded.
type limits struct {
	memory   int64         // bytes of address space; 0 = not limited
	cpu      time.Duration // processor time
	deadline time.Duration // wall-clock time
}

// readMemory is enough for the index of a pack of some ten million objects, because git maps packs in windows.
const readMemory = 1 << 30

// readLimits returns the limits for reading a pack of this many bytes. Unpacking a typical MiB takes well below a second.
func readLimits(pack int64) *limits {
	cpu := time.Minute + time.Duration(pack>>20)*time.Second
	return &limits{memory: readMemory, cpu: cpu, deadline: 4 * cpu}
}

// pushLimits are the limits of git push, which sends objects that were measured before. Its memory is bounded by
// cageConfig and by the sizes of the objects, not by the kernel: credential helpers and the user's hooks are its children,
// and some runtimes reserve more address space than any useful limit.
var pushLimits = &limits{cpu: 30 * time.Minute, deadline: time.Hour}

// concurrentCages is the concurrency limit for processes with resource limits.
const concurrentCages = 4

// cageConfig keeps git's own memory low: packs are mapped in small windows, so that a repository of any size fits, and
// large files are neither compared by line nor taken as bases of deltas.
var cageConfig = []string{
	"-c", "core.packedGitWindowSize=32m",
	"-c", "core.packedGitLimit=256m",
	"-c", "core.deltaBaseCacheLimit=64m",
	"-c", "core.bigFileThreshold=16m",
	"-c", "pack.threads=1",
	"-c", "pack.windowMemory=128m",
	"-c", "pack.deltaCacheSize=64m",
}

// wrapCommand returns a command line that sets the limits of l and then executes path.
func (l *limits) wrapCommand(path string, args []string) (string, []string) {
	seconds := int64(l.cpu / time.Second)
	// Setting a limit fails only if the current one is lower. The soft limit of processor time ends git with SIGXCPU, by
	// which limitRefusal recognizes it.
	script := fmt.Sprintf("ulimit -c 0; ulimit -S -t %d; ulimit -H -t %d; ", seconds, seconds+5)
	if l.memory > 0 && runtime.GOOS != "darwin" { // macOS does not bound address space
		script += "ulimit -v " + strconv.FormatInt(l.memory>>10, 10) + "; "
	}
	script = "{ " + script + `} 2>/dev/null; exec "$0" "$@"`
	return "/bin/sh", append([]string{"-c", script, path}, args...)
}

// acquireCage waits for a slot for a process with resource limits.
func (g *runner) acquireCage(ctx context.Context) (leave func(), err error) {
	select {
	case g.cages <- struct{}{}:
		return func() { <-g.cages }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// outOfMemory matches the messages of git, zlib and the C library for failed allocations.
var outOfMemory = regexp.MustCompile(`(?i)out of memory|cannot allocate memory|mmap failed`)

// limitRefusal returns a refusal if a limit ended git, else nil.
func (l *limits) limitRefusal(what string, exit *exec.ExitError, r result, late bool) error {
	const hint = "push in smaller steps, without very large files"
	by := syscall.Signal(0)
	if exit != nil {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			by = s.Signal()
		}
	}
	switch {
	case r.cut:
		return newRefusal("limit_exceeded", hint, "git %s printed more than %d MiB about the sprite's objects", what, maxOutput>>20)
	case late:
		return newRefusal("limit_exceeded", hint, "git %s took longer than %s to read the sprite's objects", what, l.deadline)
	case by == syscall.SIGXCPU:
		return newRefusal("limit_exceeded", hint, "git %s took more than %s of processor time to read the sprite's objects", what, l.cpu)
	case exit != nil && l.memory > 0 && (by == syscall.SIGSEGV || by == syscall.SIGBUS || outOfMemory.MatchString(r.stderr)):
		return newRefusal("limit_exceeded", hint, "git %s needs more than %d MiB of memory to read the sprite's objects", what, l.memory>>20)
	}
	return nil
}

// quarantine is a scratch repository with a sprite's objects that borrows the objects of its target. Every git process
// that reads it has resource limits.
type quarantine struct {
	git    *Git
	dir    string
	format string // sha1 | sha256
	limits *limits
}

func (q quarantine) gitCommand(args ...string) command {
	return command{dir: q.dir, limits: q.limits, args: args}
}

func (q quarantine) run(ctx context.Context, args ...string) (result, error) {
	return q.git.run(ctx, q.gitCommand(args...))
}

func (q quarantine) mustRun(ctx context.Context, args ...string) (result, error) {
	return q.git.mustRun(ctx, q.gitCommand(args...))
}

// isAncestor reports whether old is in the history of young. An old that does not exist is not.
func (q quarantine) isAncestor(ctx context.Context, old, young string) (bool, error) {
	r, err := q.run(ctx, "merge-base", "--is-ancestor", old, young)
	return err == nil && r.exit == 0, err
}
