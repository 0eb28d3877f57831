package guest

import (
	"cmp"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// rule refuses a system call by the lower half of one of its arguments, the only half that the kernel looks at there.
type rule struct {
	call     uint32
	argument uint32
	values   []uint32
	errno    unix.Errno // EPERM when 0
}

// rules are separate from package callfilter, which compares whole arguments: these rules must ignore the upper half, which C
// libraries fill differently and attackers choose freely.
var rules = []rule{
	{call: unix.SYS_IOCTL, argument: 1, values: []uint32{
		// Typing into terminals: of others, or of who looks at this one.
		unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD,
		// Trees in the tree, which snapshots leave out and which cannot be removed like folders: BTRFS_IOC_SNAP_CREATE,
		// SUBVOL_CREATE, SNAP_DESTROY, SNAP_CREATE_V2, SUBVOL_CREATE_V2, SUBVOL_SETFLAGS, SNAP_DESTROY_V2.
		0x50009401, 0x5000940e, 0x5000940f, 0x50009417, 0x50009418, 0x4008941a, 0x5000943f,
		// Encrypted files, which the host could not copy.
		unix.FS_IOC_SET_ENCRYPTION_POLICY, unix.FS_IOC_ADD_ENCRYPTION_KEY,
	}},
	// Leases on files that other sprites open, too, let their holder stall each open for up to fs.lease-break-time, through
	// read-only mounts as well. Directory notification is the legacy of inotify, counted nowhere.
	{call: unix.SYS_FCNTL, argument: 1, values: []uint32{unix.F_SETLEASE, unix.F_NOTIFY, setDelegation}},
	// Limits of init, which runs as the same user; see onlyOwnLimits.
	{call: unix.SYS_PRLIMIT64, argument: 0, values: []uint32{1}},
	// The kernel's audit, for which useradd and the like look: they go on where there is none, and end where it is refused.
	{call: unix.SYS_SOCKET, argument: 2, values: []uint32{unix.NETLINK_AUDIT}, errno: unix.EPROTONOSUPPORT},
}

// setDelegation is F_SETDELEG, a lease on a folder.
const setDelegation = 1024 + 16

// filters refuse the calls of package callfilter and of the rules. If two refuse the same call, the error of the one loaded
// last counts.
type filters [][]unix.SockFilter

// newFilters has all of them at hand.
func newFilters() (filters, error) {
	native, calls, err := callFilter()
	if err != nil {
		return nil, spec.FailedAt("filter system calls", err)
	}
	all := filters{onlyNative(native), calls}
	for _, r := range rules {
		all = append(all, r.filterProgram())
	}
	return append(all, onlyOwnLimits()), nil
}

// loadFilters has the kernel apply them to this thread and all that comes of it.
func (f filters) loadFilters() error {
	for _, program := range f {
		if err := loadFilter(program); err != nil {
			return spec.FailedAt("filter system calls", err)
		}
	}
	return nil
}

// onlyNative refuses the calls of other architectures that this kernel also serves, such as those of 32-bit programs: their
// numbers mean something else, and the policy does not look at them.
func onlyNative(native uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: native},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
}

// onlyOwnLimits refuses to set the limits of another process. Init runs as the same user, and each of its threads has a number
// by which its limits could be set; which these are no filter can know. The number of processes is excepted: init sets it for
// commands. Limits are read as everywhere.
func onlyOwnLimits() []unix.SockFilter {
	const pid, limit, set = callArguments, callArguments + 8, callArguments + 16 // of the first two the kernel looks at the lower half
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 8, K: unix.SYS_PRLIMIT64},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: pid},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 6, K: 0},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: limit},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 4, K: unix.RLIMIT_NPROC},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: set},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: 0},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: set + 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
}

// filterProgram returns the filter that refuses the calls of a rule.
func (r rule) filterProgram() []unix.SockFilter {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: r.call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callArguments + 8*r.argument}, // its lower half, on all that Linux has us run on
	}
	for i, v := range r.values {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(r.values) - i), K: v})
	}
	return append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(cmp.Or(r.errno, unix.EPERM))},
	)
}

// Offsets of the members of struct seccomp_data that filters use.
const (
	callNumber    = 0
	callArch      = 4
	callArguments = 16
)

func loadFilter(program []unix.SockFilter) error {
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
