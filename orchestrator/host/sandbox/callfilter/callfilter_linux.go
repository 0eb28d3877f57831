// Package callfilter assembles the filter of system calls that sandboxes have. Program gives it, for the architecture that this
// program was built for.
//
// The assembler brings tables of every architecture's calls, which are filled when a process starts. Init starts with each
// sandbox, so where it counts most package sandbox has the finished filter, and its tests hold that to be this one.
package callfilter

import (
	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Program is the filter as the kernel takes it. It looks only at calls of the native architecture, which Native names.
func Program() ([]unix.SockFilter, error) {
	refused := refusedCalls()
	calls, err := refused.Assemble()
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(calls)
	if err != nil {
		return nil, err
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return program, nil
}

// Native is the kernel's name (AUDIT_ARCH_*) of the architecture that this program was built for.
func Native() (uint32, error) {
	own, err := arch.GetInfo("")
	if err != nil {
		return 0, err
	}
	return uint32(own.ID), nil
}

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

// namespaceFlags are the flags with which clone is refused.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// families are the kinds of sockets that programs use; netlink only to read the state of the network.
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// refusedCalls returns the policy of the system calls that are refused on this architecture.
func refusedCalls() seccomp.Policy {
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
		when("socket", foreign...), seldomFamily(unix.AF_INET), seldomFamily(unix.AF_INET6),
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

// seldomFamily returns the condition that a socket is of none of the protocols that programs use: the others lie in modules that the
// kernel would load for the asking.
func seldomFamily(family uint64) seccomp.NameWithConditions {
	rule := seccomp.NameWithConditions{Name: "socket", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: family}}}
	for _, protocol := range []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6} {
		rule.Conditions = append(rule.Conditions, seccomp.Condition{Argument: 2, Operation: seccomp.NotEqual, Value: protocol})
	}
	return rule
}
