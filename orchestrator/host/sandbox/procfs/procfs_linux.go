// Package procfs reads from /proc which processes there are, how they descend from each other, and how their threads stand.
// It changes nothing, but for [EndSessions].
package procfs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// EndSessions kills the remaining processes of the sessions of a plain box whose init was killed.
func EndSessions(leaders map[int]bool) {
	if len(leaders) == 0 {
		return
	}
	for _, p := range Processes() {
		if leaders[p.session] {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}

func Descendants(root int) (found []int) {
	children := make(map[int][]int)
	for _, p := range Processes() {
		children[p.parent] = append(children[p.parent], p.PID)
	}
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

type process struct{ PID, parent, session int }

// Processes lists the processes that /proc shows. A process that ends during the call is left out.
func Processes() (all []process) {
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
		// The name, in parentheses, may hold anything, so the fields follow the last one: state, parent, group, session.
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

// Posture is how one thread stands. It cannot have run between two looks that find the same state and count.
type Posture struct {
	Process, Parent int
	State           byte   // as in /proc: R S D T t Z X
	Switches        uint64 // how often it was scheduled
}

func Stands(pid, tid int) (p Posture, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	if err != nil {
		return p, err
	}
	p.Process = pid
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		name, value, _ := bytes.Cut(sc.Bytes(), []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(name) {
		case "State":
			p.State = value[0]
		case "PPid":
			p.Parent, err = strconv.Atoi(string(value))
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			var n uint64
			n, err = strconv.ParseUint(string(value), 10, 64)
			p.Switches += n
		}
		if err != nil {
			return p, fmt.Errorf("read how thread %d stands: %w", tid, err)
		}
	}
	return p, nil
}

// IsPseudo reports whether reading f runs code of the kernel's instead of fetching bytes, or whether that is not known.
func IsPseudo(f *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return true
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.NSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.PID_FS_MAGIC,
		unix.ANON_INODE_FS_MAGIC:
		return true
	}
	return false
}
