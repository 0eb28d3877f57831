package guest

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// limitSelf sets the limits that a process keeps for itself and for all that comes of it.
func limitSelf(l spec.Limits, left spec.Without) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return spec.FailedAt("forbid core dumps", err)
	}
	if left.Defended(spec.DefenceShares) {
		if err := limitDescriptors(l.Pids); err != nil {
			return spec.FailedAt("limit descriptors", err)
		}
	}
	if left.Defended(spec.DefencePids) && spec.CountsPerNamespace() {
		own := uint64(l.Pids + spec.SpareThreads) // limitCommand takes the spare ones off
		most := unix.Rlimit{Cur: own, Max: own}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &most); err != nil && !errors.Is(err, unix.EPERM) { // a lower one stands already
			return spec.FailedAt("limit processes", err)
		}
	}
	if left.Defended(spec.DefenceMemory) {
		// When the machine runs out of memory, the kernel looks for the culprit here first.
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0); err != nil && !errors.Is(err, unix.EACCES) {
			return spec.FailedAt("offer the box's memory first", err)
		}
	}
	return nil
}

// limitDescriptors gives each process in the box at most half of the descriptors that the host may have; see MostFiles. The
// kernel applies the same limit to the descriptors in transit over sockets, which it counts for all processes of the user,
// in all boxes: so boxes cannot keep the host from passing its own. The limit holds from the first instruction of a
// command, because init itself has no more.
func limitDescriptors(pids int) error {
	own, err := descriptorsAtStart()
	if err != nil {
		return err
	}
	own.Max = MostFiles(own.Max, pids)
	own.Cur = min(own.Cur, own.Max)
	// If the machine's own limit (fs.nr_open) was lowered far below that of running hosts, the kernel refuses, and the box
	// starts without the reserve.
	return spec.Ignoring(unix.EPERM, unix.Setrlimit(unix.RLIMIT_NOFILE, &own))
}

// fewestFiles is how many descriptors each process of a box may have, however many these are.
const fewestFiles = 4096

// MostFiles returns the limit of descriptors for each process of a box that may have so many processes. It is bounded by the
// limit of the host and by the machine: all processes together may open a quarter of its file table, and use a quarter of its
// memory at a KiB each. It is never below the usual limit of programs.
func MostFiles(own uint64, pids int) uint64 {
	share := uint64(spec.MachineMemory()) >> 10
	if all, err := strconv.ParseUint(spec.ReadKnob("fs/file-max"), 10, 64); err == nil {
		share = min(share, all)
	}
	return max(1, min(own/2, max(fewestFiles, share/4/uint64(max(pids, 1)))))
}

// descriptorsAtStart returns the limit of descriptors with which this process was started; its commands get it again.
// Go's runtime raises the limit at the start, hides the old one, and restores it before an exec: so the function tries to
// execute a missing program.
func descriptorsAtStart() (own unix.Rlimit, err error) {
	if err := syscall.Exec("", []string{""}, nil); !errors.Is(err, syscall.ENOENT) {
		return own, err
	}
	err = unix.Getrlimit(unix.RLIMIT_NOFILE, &own)
	return own, err
}

// limitCommand lowers the limits of a command that has just started below those of init, which leaves init some threads. Until
// then the command has init's limits. In a plain box, which has no other limits, it halves the descriptors; see
// limitDescriptors.
func limitCommand(pid int, plain bool) {
	if plain {
		lowerLimit(pid, unix.RLIMIT_NOFILE, func(own uint64) uint64 { return own / 2 })
		return
	}
	lowerLimit(pid, unix.RLIMIT_NPROC, func(own uint64) uint64 { return max(own, spec.SpareThreads+1) - spec.SpareThreads })
}

func lowerLimit(pid, limit int, most func(own uint64) uint64) {
	var own, its unix.Rlimit
	if unix.Getrlimit(limit, &own) != nil || unix.Prlimit(pid, limit, nil, &its) != nil {
		return // it has ended
	}
	top := most(own.Max)
	_ = unix.Prlimit(pid, limit, &unix.Rlimit{Cur: min(its.Cur, top), Max: min(its.Max, top)}, nil) // as before
}
