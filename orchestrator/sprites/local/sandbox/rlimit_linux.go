package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// spareThreads is how many threads init may have when commands have used up the box's processes and threads: a program in Go
// that gets no thread when it needs one is at its end, and the box with it.
const spareThreads = 64

// countsPerNamespace reports whether RLIMIT_NPROC counts the processes of one user namespace, as it does since Linux 5.14.
// Before, it counts all of the user's on the machine.
func countsPerNamespace() bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 14
}

// limitSelf sets the limits that a process keeps for itself and for all that comes of it.
func limitSelf(l Limits, left without) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return &setupFailure{"forbid core dumps", err}
	}
	if left.defended(DefencePids) && countsPerNamespace() {
		own := uint64(l.Pids + spareThreads) // limitCommand takes the spare ones off
		most := unix.Rlimit{Cur: own, Max: own}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &most); err != nil && !errors.Is(err, unix.EPERM) { // a lower one stands already
			return &setupFailure{"limit processes", err}
		}
	}
	if left.defended(DefenceMemory) {
		// When the machine runs out of memory, the kernel looks for the culprit here first.
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0); err != nil && !errors.Is(err, unix.EACCES) {
			return &setupFailure{"offer the box's memory first", err}
		}
	}
	return nil
}

// limitCommand lowers limits of a command that has just started below init's.
//
// It gets half of init's descriptors. By the same limit the kernel measures those that all of the user's processes, in
// whatever box, have on their way in sockets, before it lets one send more: whatever commands do, init and the host can still
// hand theirs over. And it leaves init some threads. What a command does in the moment before this it does with init's limits.
func limitCommand(pid int, plain bool) {
	lower(pid, unix.RLIMIT_NOFILE, func(own uint64) uint64 { return own / 2 })
	if !plain {
		lower(pid, unix.RLIMIT_NPROC, func(own uint64) uint64 { return max(own, spareThreads+1) - spareThreads })
	}
}

func lower(pid, limit int, most func(own uint64) uint64) {
	var own, its unix.Rlimit
	if unix.Getrlimit(limit, &own) != nil || unix.Prlimit(pid, limit, nil, &its) != nil {
		return // it has ended
	}
	top := most(own.Max)
	_ = unix.Prlimit(pid, limit, &unix.Rlimit{Cur: min(its.Cur, top), Max: min(its.Max, top)}, nil) // as before
}

// machineMemory is how much memory the machine has, 0 when that cannot be told.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}
