package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of all its orphaned descendants, so that none gets away.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr gives each command a session of its own. In a plain box it also dies with init; in a pid namespace it does so
// anyway.
func childAttr(tty, plain bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: tty}
	if plain {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// endDescendants kills until this process has no descendants. Killing a parent makes its children ours, and what was
// started meanwhile is found in the next round.
func (s *server) endDescendants() {
	self := os.Getpid()
	for {
		for _, pid := range descendants(self) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}

// endSessions kills what is left of the sessions of a plain box whose init was killed.
func endSessions(leaders map[int]bool) {
	if len(leaders) == 0 {
		return
	}
	for _, p := range processes() {
		if leaders[p.session] {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

func descendants(root int) (found []int) {
	children := make(map[int][]int)
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

type process struct{ pid, parent, session int }

// processes lists what /proc shows. A process that ends meanwhile is left out.
func processes() (all []process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything: what counts follows the last one: state, parent, group, session.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 4 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		session, _ := strconv.Atoi(string(fields[3]))
		all = append(all, process{pid, parent, session})
	}
	return all
}

// isMaster reports whether fd is the master side of a pty.
func isMaster(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	return err == nil
}
