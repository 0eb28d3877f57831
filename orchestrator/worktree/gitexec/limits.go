package gitexec

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Limits are the resource limits of a git process that reads objects of a sprite, and of each of its children (DESIGN 34).
// A small pack can contain objects that need any amount of memory, and a few trees can describe any number of paths: the
// kernel ends a git that exceeds a limit, and the request is refused with limit_exceeded.
type Limits struct {
	Memory   int64         // bytes of address space; 0 = not limited
	CPU      time.Duration // processor time
	Deadline time.Duration // wall-clock time
}

// readMemory is enough for the index of a pack of some ten million objects, because git maps packs in windows.
const readMemory = 1 << 30

// ReadLimits returns the limits for reading a pack of this many bytes. Unpacking a typical MiB takes well below a second.
func ReadLimits(pack int64) *Limits {
	cpu := time.Minute + time.Duration(pack>>20)*time.Second
	return &Limits{Memory: readMemory, CPU: cpu, Deadline: 4 * cpu}
}

// PushLimits are the limits of git push, which sends objects that were measured before. Its memory is bounded by
// cageConfig and by the sizes of the objects, not by the kernel: credential helpers and the user's hooks are its children,
// and some runtimes reserve more address space than any useful limit.
var PushLimits = &Limits{CPU: 30 * time.Minute, Deadline: time.Hour}

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
func (l *Limits) wrapCommand(path string, args []string) (string, []string) {
	seconds := int64(l.CPU / time.Second)
	// Setting a limit fails only if the current one is lower. The soft limit of processor time ends git with SIGXCPU, by
	// which limitRefusal recognizes it.
	script := fmt.Sprintf("ulimit -c 0; ulimit -S -t %d; ulimit -H -t %d; ", seconds, seconds+5)
	if l.Memory > 0 && runtime.GOOS != "darwin" { // macOS does not bound address space
		script += "ulimit -v " + strconv.FormatInt(l.Memory>>10, 10) + "; "
	}
	script = "{ " + script + `} 2>/dev/null; exec "$0" "$@"`
	return "/bin/sh", append([]string{"-c", script, path}, args...)
}

// acquireCage waits for a slot for a process with resource limits.
func (g *Runner) acquireCage(ctx context.Context) (leave func(), err error) {
	select {
	case g.cages <- struct{}{}:
		return func() { <-g.cages }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// outOfMemory matches the messages of git, zlib and the C library for failed allocations.
var outOfMemory = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)out of memory|cannot allocate memory|mmap failed`)
})

// limitRefusal returns a refusal if a limit ended git, else nil.
func (l *Limits) limitRefusal(what string, exit *exec.ExitError, r Result, late bool) error {
	const hint = "push in smaller steps, without very large files"
	by := syscall.Signal(0)
	if exit != nil {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			by = s.Signal()
		}
	}
	switch {
	case r.Cut:
		return Refuse("limit_exceeded", hint, "git %s printed more than %d MiB about the sprite's objects", what, MaxOutput>>20)
	case late:
		return Refuse("limit_exceeded", hint, "git %s took longer than %s to read the sprite's objects", what, l.Deadline)
	case by == syscall.SIGXCPU:
		return Refuse("limit_exceeded", hint, "git %s took more than %s of processor time to read the sprite's objects", what, l.CPU)
	case exit != nil && l.Memory > 0 && (by == syscall.SIGSEGV || by == syscall.SIGBUS || outOfMemory().MatchString(r.Stderr)):
		return Refuse("limit_exceeded", hint, "git %s needs more than %d MiB of memory to read the sprite's objects", what, l.Memory>>20)
	}
	return nil
}
