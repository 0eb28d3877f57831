package proc

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of descendants whose own parent dies.
func adoptOrphans() error {
	return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// listParents maps each process that /proc shows to its parent; empty without /proc.
func listParents() map[int]int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	m := make(map[int]int, len(stats))
	for _, name := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid …, where comm may hold anything, parentheses too.
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if ppid, err := strconv.Atoi(string(fields[1])); err == nil {
			m[pid] = ppid
		}
	}
	return m
}

func childrenOf(pid int) []int {
	var children []int
	for child, parent := range listParents() {
		if parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// listDescendants returns the descendants of the roots, roots excluded.
func listDescendants(tree map[int]int, roots map[int]bool) []int {
	var found []int
	for pid := range tree {
		for p, hops := tree[pid], 0; p > 1 && hops < len(tree); p, hops = tree[p], hops+1 {
			if roots[p] {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// Hold stops a process and its descendants until release is called. Orphans of theirs are not found.
func Hold(pid int) (release func()) {
	held := map[int]bool{}
	for again := true; again; { // until none was forked before its parent was stopped
		again = false
		for _, p := range append(listDescendants(listParents(), map[int]bool{pid: true}), pid) {
			if !held[p] {
				held[p], again = true, syscall.Kill(p, syscall.SIGSTOP) == nil || again
			}
		}
	}
	return func() {
		for p := range held {
			_ = syscall.Kill(p, syscall.SIGCONT) // one that was killed has ended
		}
	}
}

// killTree kills all present descendants of pid and adds them to killed: pid may reap them before a sweep sees them.
// Their orphans become our children and are killed later.
func (r *Reaper) killTree(pid int, killed map[int]bool) {
	for _, p := range listDescendants(listParents(), map[int]bool{pid: true}) {
		_ = syscall.Kill(p, syscall.SIGKILL)
		killed[p] = true
	}
}

// killOrphans kills every orphan that came to us, with its descendants, and reaps them, until none is left; it adds them to
// killed. r.mu is held, so no child can be between fork and registration.
func (r *Reaper) killOrphans(killed map[int]bool) {
	self := os.Getpid()
	for {
		tree := listParents()
		orphans := map[int]bool{}
		for pid, parent := range tree {
			if parent == self && !r.children[pid] && !r.prior[pid] {
				orphans[pid] = true
			}
		}
		if len(orphans) == 0 {
			return
		}
		// Stop before killing: a stopped process cannot fork while the others are looked up.
		all := listDescendants(tree, orphans)
		all = slices.AppendSeq(all, maps.Keys(orphans))
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, pid := range all {
				_ = syscall.Kill(pid, sig)
			}
		}
		for pid := range orphans {
			killed[pid] = true
			if !killAndWait(pid) {
				r.prior[pid] = true // no permission to kill, or not ours to wait for: never look at it again
			}
		}
		runtime.Gosched()
	}
}

// killAndWait waits for a killed child. It reports false when it could not be killed.
func killAndWait(pid int) bool {
	if err := syscall.Kill(pid, syscall.SIGKILL); errors.Is(err, syscall.EPERM) {
		return false
	}
	for {
		_, err := syscall.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil || errors.Is(err, syscall.ECHILD)
		}
	}
}
