package sandbox_test

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// The layers, each of which stops a kind of attack by itself.
var (
	mounting  = []spec.Defence{spec.DefenceCaps, spec.DefenceSeccomp, spec.DefenceLandlock}
	namespace = []spec.Defence{spec.DefenceCaps, spec.DefenceSeccomp}
	filter    = []spec.Defence{spec.DefenceSeccomp}
)

// attacks is the whole table; THREATS.md names its rows.
func attacks() []attack {
	return slices.Concat(mountAttacks(), namespaceAttacks(), kernelAttacks(), initAttacks(), fileAttacks(), neighbourAttacks(), limitAttacks(), shareAttacks())
}

func mountAttacks() []attack {
	return []attack{
		{name: "mount a file system", actor: "mount-tmpfs", layers: mounting},
		{name: "mount by descriptors", actor: "mount-api", layers: mounting},
		{name: "mount a fresh /proc", actor: "fresh-proc", layers: mounting},
		{name: "remount the skills writable", actor: "remount-skills", layers: mounting, prepare: giveSkills, succeeded: skillsChanged},
		{name: "make the skills' mount writable by mount_setattr", actor: "setattr-skills", layers: namespace, prepare: giveSkills, succeeded: skillsChanged},
		{name: "unmount the skills", actor: "umount-skills", layers: mounting},
		{name: "cover the skills by a bind mount", actor: "bind-over-skills", layers: mounting},
		{name: "write a skill", script: "echo x >/skills/evil", layers: []spec.Defence{spec.DefenceReadOnly}, prepare: giveSkills, succeeded: skillsChanged},
		{name: "change a skill", script: "echo x >/skills/hello", layers: []spec.Defence{spec.DefenceReadOnly}, prepare: giveSkills, succeeded: skillsChanged},
	}
}

func namespaceAttacks() []attack {
	nested := []spec.Defence{spec.DefenceUserns, spec.DefenceSeccomp}
	return []attack{
		{name: "unshare a user namespace", actor: "unshare", args: []string{"user"}, layers: nested},
		{name: "clone into a user namespace", actor: "clone", args: []string{"user"}, layers: nested},
		{name: "unshare a mount namespace", actor: "unshare", args: []string{"mnt"}, layers: namespace},
		{name: "unshare a network namespace", actor: "unshare", args: []string{"net"}, layers: namespace},
		{name: "unshare a time namespace", actor: "unshare", args: []string{"time"}, layers: namespace},
		{name: "clone into a process namespace", actor: "clone", args: []string{"pid"}, layers: namespace},
		{name: "enter a namespace", actor: "setns", layers: namespace},
		{name: "set the host name", actor: "hostname", layers: []spec.Defence{spec.DefenceCaps}},
	}
}

// kernelAttacks are parts of the kernel that sprites have no business with, and that had their holes.
func kernelAttacks() (rows []attack) {
	for _, call := range []string{
		"bpf", "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "perf_event_open",
		"open_by_handle_at", "mount", "fsconfig", "open_tree", "setns", "clone3",
	} {
		rows = append(rows, attack{name: "reach the kernel's " + call, actor: "syscall", args: []string{call}, layers: filter})
	}
	rows = append(rows, attack{name: "open a socket to other machines' kernels (AF_VSOCK)", actor: "socket", args: []string{"vsock"}, layers: filter})
	return append(rows,
		attack{name: "hold a lease on a file, which blocks others that open it", actor: "syscall", args: []string{"lease"}, layers: filter},
		attack{name: "hold one with more in the request than the kernel reads", actor: "syscall", args: []string{"wide lease"}, layers: filter},
		attack{name: "hold a lease on a folder", actor: "syscall", args: []string{"folder delegation"}, layers: filter},
		attack{name: "have the kernel signal changes of a folder (F_NOTIFY)", actor: "syscall", args: []string{"folder notices"}, layers: filter},
		attack{name: "change the limits of init", actor: "syscall", args: []string{"limits of init"}, layers: filter},
		attack{name: "change them through a thread of it", actor: "syscall", args: []string{"limits of threads"}, layers: filter},
		attack{name: "open a socket pair of a rare family", actor: "syscall", args: []string{"socketpair"}, layers: filter},
		attack{name: "open a socket of a rare protocol", actor: "syscall", args: []string{"mptcp"}, layers: filter},
		attack{name: "make a subvolume of btrfs, which no snapshot holds", actor: "syscall", args: []string{"subvolumes"}, layers: filter},
		attack{name: "make one with more in the request than the kernel reads", actor: "syscall", args: []string{"wide subvolumes"}, layers: filter},
		attack{name: "encrypt a folder, so that the host cannot copy it", actor: "syscall", args: []string{"encryption"}, layers: filter},
		attack{name: "type into a terminal (TIOCSTI)", actor: "push-input", tty: true, layers: filter},
		attack{name: "type into a terminal with more in the request than the kernel reads", actor: "push-input", args: []string{"wide"}, tty: true, layers: filter},
	)
}

// initAttacks are aimed at the one process of the box that speaks to the host.
func initAttacks() []attack {
	hidden := []spec.Defence{spec.DefenceDumpable}
	rows := []attack{
		{name: "trace init", actor: "ptrace-init", layers: hidden},
		{name: "read init's memory by system call", actor: "vm-read-init", layers: hidden},
		{name: "take init's control socket", actor: "steal-fd", layers: hidden},
		{name: "list init's descriptors", actor: "list-init", args: []string{"fd"}, layers: hidden},
		{
			name: "overwrite the host's executable through /proc/self/exe", actor: "spoil-executable", self: true,
			prepare: privateSelf, succeeded: selfChanged, plain: true,
		},
		{name: "kill init", actor: "kill-init", succeeded: boxEnded, plain: true},
	}
	for _, file := range []string{"mem", "environ", "auxv", "maps"} {
		rows = append(rows, attack{name: "read /proc/1/" + file, actor: "open-init", args: []string{file}, layers: hidden})
	}
	for _, link := range []string{"exe", "root", "cwd"} {
		rows = append(rows, attack{name: "follow /proc/1/" + link, actor: "list-init", args: []string{link}, layers: hidden})
	}
	return rows
}

func fileAttacks() []attack {
	return []attack{
		{name: "read a file of the host's", script: `cat "$1"`, prepare: nameSecret, plain: true},
		{name: "read a descriptor that the host left open", actor: "leaked-fd", prepare: leakDescriptor, layers: []spec.Defence{spec.DefenceCloseFDs}},
		{
			name: "run a setuid program of an image's", script: "/workspace/suid " + attackArg + " is-root", prepare: plantSetuid,
			layers: []spec.Defence{spec.DefenceNoNewPrivs, spec.DefenceNosuid}, only: spec.LevelRoot,
		},
		{
			name: "make a setuid program that is the host's root's", script: "cp /bin/true suid && chmod 4755 suid",
			succeeded: rootOwnsSetuid, plain: true, only: spec.LevelRoot,
		},
		{name: "read symbols of the kernel in /proc", script: "test -n \"$(head -c1 /proc/kallsyms)\"", layers: []spec.Defence{spec.DefenceMaskedProc}},
		{name: "read the machine's interrupts in /proc", script: "test -n \"$(head -c1 /proc/interrupts)\"", layers: []spec.Defence{spec.DefenceMaskedProc}},
		{name: "open a device of an image's", actor: "device", args: []string{"/workspace/null"}, prepare: plantDevice, layers: []spec.Defence{spec.DefenceNosuid}, only: spec.LevelRoot},
	}
}

// neighbourAttacks are aimed at what else runs on the host, other sprites among it.
func neighbourAttacks() []attack {
	return []attack{
		{name: "kill a process of the host's", actor: "kill", prepare: startVictim, succeeded: victimKilled, layers: []spec.Defence{spec.DefencePidNamespace, spec.DefenceLandlock}},
		{name: "see a process of the host's", actor: "see-process", prepare: startVictim, layers: []spec.Defence{spec.DefencePidNamespace}},
		{name: "connect to an abstract socket of the host's", actor: "connect", prepare: listenAbstract, network: true, layers: []spec.Defence{spec.DefenceNetns, spec.DefenceLandlock}},
		{name: "connect to the host's loopback", actor: "connect", prepare: listenLoopback, network: true, layers: []spec.Defence{spec.DefenceNetns}},
		{name: "attach shared memory of the host's", actor: "shared-memory", prepare: shareMemory, plain: true},
		{name: "open a message queue of the host's", actor: "message-queue", prepare: makeQueue, plain: true},
	}
}

func limitAttacks() []attack {
	const mib = 1 << 20
	bomb := func(name, actor, arg string, by spec.Defence, limits spec.Limits) attack {
		return attack{name: name, actor: actor, args: []string{arg}, layers: []spec.Defence{by}, limits: limits, kept: by}
	}
	spin := bomb("take more than its part of the processors", "spin", "300ms", spec.DefenceCPU, spec.Limits{CPUs: 0.2})
	spin.succeeded = unthrottled
	return []attack{
		bomb("start processes without end", "fork", "100", spec.DefencePids, spec.Limits{Pids: 60}),
		bomb("take memory without end", "memory", fmt.Sprint(192*mib), spec.DefenceMemory, spec.Limits{MemoryBytes: 96 * mib}),
		spin,
		{name: "fill /dev/shm", actor: "fill", args: []string{"/dev/shm", fmt.Sprint(24 * mib)}, limits: spec.Limits{TmpBytes: 8 * mib}, layers: []spec.Defence{spec.DefenceTmpSize}},
		{name: "fill /run", actor: "fill", args: []string{"/run", fmt.Sprint(24 * mib)}, limits: spec.Limits{TmpBytes: 8 * mib}, layers: []spec.Defence{spec.DefenceTmpSize}},
	}
}
