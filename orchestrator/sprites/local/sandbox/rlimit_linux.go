package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

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
		most := unix.Rlimit{Cur: uint64(l.Pids), Max: uint64(l.Pids)}
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

// limitDescriptors gives a command that has just started half of init's descriptors at most. By the same limit the kernel
// measures those that all of the user's processes, in whatever box, have on their way in sockets, before it lets one send
// more: whatever commands do, init and the host can still hand theirs over.
func limitDescriptors(pid int) {
	var own, its unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &own) != nil || unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &its) != nil {
		return // it has ended
	}
	most := own.Max / 2
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(its.Cur, most), Max: min(its.Max, most)}, nil) // as before
}

// machineMemory is how much memory the machine has, 0 when that cannot be told.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}
