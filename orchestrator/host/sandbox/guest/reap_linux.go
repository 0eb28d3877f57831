package guest

import (
	"os"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of all its orphaned descendants, so that none gets away.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr gives each command a session of its own. In a plain box it also dies with init; in a pid namespace it does so
// anyway.
func childAttr(tty, plain bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: tty}
	if plain {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// endDescendants kills until this process has no descendants. Killing a parent makes its children ours, and the
// next round finds processes started since.
func (s *server) endDescendants() {
	self := os.Getpid()
	for {
		for _, pid := range procfs.Descendants(self) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}
