//go:build !linux

package proc

import "syscall"

// Without a child subreaper only a process group can be found: a process that starts its own session survives.

func adoptOrphans() error { return nil }

func childrenOf(int) []int { return nil }

func (r *Reaper) killTree(int, map[int]bool) {}

func (r *Reaper) killOrphans(map[int]bool) {}

// Hold stops the process group of a process until release is called.
func Hold(pid int) (release func()) {
	_ = syscall.Kill(-pid, syscall.SIGSTOP)
	return func() { _ = syscall.Kill(-pid, syscall.SIGCONT) }
}
