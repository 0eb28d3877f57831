package spec

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"golang.org/x/sys/unix"
)

// SpareThreads is how many threads init may have when commands have used up the box's processes and threads: a program in Go
// that gets no thread when it needs one is at its end, and the box with it.
const SpareThreads = 64

// CountsPerNamespace reports whether RLIMIT_NPROC counts the processes of one user namespace, as it does since Linux 5.14.
// Before, it counts all of the user's on the machine.
func CountsPerNamespace() bool { return kernelIs(5, 14) }

// PidsPerNamespace reports whether a pid namespace has a limit of process ids of its own, as it does since Linux 6.14.
func PidsPerNamespace() bool { return kernelIs(6, 14) }

// kernelIs reports whether this kernel is of a version, or later.
func kernelIs(leastMajor, leastMinor int) bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > leastMajor || major == leastMajor && minor >= leastMinor
}

// MachineMemory is how much memory the machine has, 0 when that cannot be told.
func MachineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}

// Owner names the host user and group to which, on the disk, the files of every box made with namespaces belong: the user who
// runs the host process, or, when that is root, an unprivileged one. Without Config.OwnIDs commands run as them, too. -1, -1 means that root has no other user to give (it maps only itself).
func Owner() (uid, gid int) {
	if uid := os.Getuid(); uid != 0 {
		return uid, os.Getgid()
	}
	if isMapped("/proc/self/uid_map") && isMapped("/proc/self/gid_map") {
		return OutsideLow + InsideID, OutsideLow + InsideID
	}
	return -1, -1
}

// isMapped reports whether this process, itself perhaps in a user namespace, can name all of Owner's ids.
func isMapped(file string) bool { return MappedRange(file, OutsideLow) }

// MappedRange reports whether it can name the range that begins with first.
func MappedRange(file string, first int) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var inside, outside, size int64
		if n, _ := fmt.Sscan(sc.Text(), &inside, &outside, &size); n == 3 && inside <= int64(first) && inside+size >= int64(first)+MapSize {
			return true
		}
	}
	return false
}

func ReadKnob(name string) string {
	b, _ := os.ReadFile("/proc/sys/" + name) // a missing knob reads as empty
	return strings.TrimSpace(string(b))
}

func Ignoring(expected unix.Errno, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// LandlockABI is the version of Landlock that this kernel has, 0 for none. Boxes do without; it is one fence of several.
func LandlockABI() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}
