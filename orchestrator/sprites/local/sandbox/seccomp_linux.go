package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are system calls that no program in a sprite needs and that have been, or lead to, holes in the kernel. ptrace is
// not among them: debuggers need it, and it reaches only the sprite's own processes, for init hides. So are
// process_vm_readv and pidfd_getfd, which ask ptrace's question.
var refused = []string{
	"mount", "umount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr",
	"unshare", "setns", "chroot",
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"keyctl", "add_key", "request_key",
	"open_by_handle_at", "name_to_handle_at", "fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms",
	"reboot", "swapon", "swapoff", "acct", "syslog", "_sysctl", "nfsservctl", "lookup_dcookie", "uselib", "ustat", "sysfs", "vm86", "vm86old",
	"iopl", "ioperm", "modify_ldt", "settimeofday", "stime", "clock_settime", "clock_adjtime", "adjtimex",
	"mbind", "migrate_pages", "move_pages", "set_mempolicy_home_node", "vmsplice", "kcmp", "vhangup",
}

// absent are those that programs take for missing: their arguments cannot be judged, and callers have another way.
var absent = []string{"clone3"}

// namespaceFlags are what clone is refused with.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// families are the kinds of sockets that programs use; netlink only to read what the network looks like.
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// requests are what ioctl is refused with.
var requests = []uint32{
	// Typing into terminals: of others, or of who looks at this one.
	unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD,
	// Trees in the tree, which snapshots leave out and which cannot be removed like folders: BTRFS_IOC_SNAP_CREATE,
	// SUBVOL_CREATE, SNAP_DESTROY, SNAP_CREATE_V2, SUBVOL_CREATE_V2, SUBVOL_SETFLAGS, SNAP_DESTROY_V2.
	0x50009401, 0x5000940e, 0x5000940f, 0x50009417, 0x50009418, 0x4008941a, 0x5000943f,
	// Files that only who has their key can read, and nobody copy.
	unix.FS_IOC_SET_ENCRYPTION_POLICY, unix.FS_IOC_ADD_ENCRYPTION_KEY,
}

// filters refuse what refused and the rules below name.
type filters [][]unix.SockFilter

// newFilters assembles them.
func newFilters() (filters, error) {
	native, err := onlyNative()
	if err != nil {
		return nil, &setupFailure{"refuse foreign system calls", err}
	}
	policy := callPolicy()
	calls, err := policy.Assemble()
	if err != nil {
		return nil, &setupFailure{"filter system calls", err}
	}
	raw, err := bpf.Assemble(calls)
	if err != nil {
		return nil, &setupFailure{"filter system calls", err}
	}
	var program []unix.SockFilter
	for _, i := range raw {
		program = append(program, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	return filters{native, refusedRequests(), program}, nil
}

// load has the kernel apply them to this thread and all that comes of it.
func (f filters) load() error {
	for _, program := range f {
		if err := loadFilter(program); err != nil {
			return &setupFailure{"filter system calls", err}
		}
	}
	return nil
}

// callPolicy is what is refused on this architecture.
func callPolicy() seccomp.Policy {
	own, err := arch.GetInfo("")
	if err != nil {
		return seccomp.Policy{} // refused as empty by the loader
	}
	known := func(names []string) (found []string) {
		for _, name := range names {
			if _, ok := own.SyscallNames[name]; ok {
				found = append(found, name)
			}
		}
		return found
	}
	is := func(argument uint32, op seccomp.Operation, value uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: op, Value: value}
	}
	when := func(name string, all ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: all}
	}
	conditional := []seccomp.NameWithConditions{
		when("clone", is(0, seccomp.BitsSet, namespaceFlags)),
		when("socket", is(0, seccomp.Equal, unix.AF_NETLINK), is(2, seccomp.NotEqual, unix.NETLINK_ROUTE)),
	}
	foreign := []seccomp.Condition{is(0, seccomp.NotEqual, unix.AF_NETLINK)}
	for _, family := range families {
		foreign = append(foreign, is(0, seccomp.NotEqual, family))
	}
	// Other systems' ways. Debuggers turn the randomness of addresses off; asking is fine.
	const perLinux, perLinux32, noRandomize, unameOld, readImpliesExec, query = 0, 0x8, 0x0040000, 0x0020000, 0x0400000, 0xffffffff
	conditional = append(conditional,
		when("socket", foreign...), seldom(unix.AF_INET), seldom(unix.AF_INET6),
		when("socketpair", is(0, seccomp.NotEqual, unix.AF_UNIX)),
		when("personality", is(0, seccomp.NotEqual, perLinux), is(0, seccomp.NotEqual, perLinux32), is(0, seccomp.NotEqual, noRandomize),
			is(0, seccomp.NotEqual, unameOld), is(0, seccomp.NotEqual, readImpliesExec), is(0, seccomp.NotEqual, query)))
	return seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			{Names: known(refused), NamesWithCondtions: conditional, Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM)},
			{Names: known(absent), Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
		},
	}
}

// seldom is the condition that a socket is of none of the protocols that programs use: the others lie in modules that the
// kernel would load for the asking.
func seldom(family uint64) seccomp.NameWithConditions {
	rule := seccomp.NameWithConditions{Name: "socket", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: family}}}
	for _, protocol := range []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6} {
		rule.Conditions = append(rule.Conditions, seccomp.Condition{Argument: 2, Operation: seccomp.NotEqual, Value: protocol})
	}
	return rule
}

// onlyNative refuses the calls of other architectures that this kernel also serves, such as those of 32-bit programs: their
// numbers mean something else, and the policy does not look at them.
func onlyNative() ([]unix.SockFilter, error) {
	own, err := arch.GetInfo(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: uint32(own.ID)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}, nil
}

// refusedRequests is apart from the policy because the kernel looks at the lower half of a request only, and the policy's
// comparisons at all of it: C libraries differ in what they put into the upper half, and attackers put there what they like.
func refusedRequests() []unix.SockFilter {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_IOCTL},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callArguments + 8}, // the second one's lower half, on all that Linux has us run on
	}
	for i, r := range requests {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(requests) - i), K: r})
	}
	return append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	)
}

// Where struct seccomp_data has what filters look at.
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
