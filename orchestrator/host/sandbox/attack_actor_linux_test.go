package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is what attackers do once they run in a box: the test binary, run there with attackArg, is one of them. Each
// returns nil when its attack succeeded. Those that a shell can play are scripts in the table instead.

// attackArg is argv[1] of the test binary as an attacker.
const attackArg = "__attack"

// How an attacker ends. Anything else is an attacker that does not work, and no test of anything.
const (
	attackSucceeded = 0
	attackStopped   = 1
)

func attacker(args []string) int {
	runtime.LockOSThread() // namespaces and the like belong to threads
	all := actors()
	maps.Copy(all, shareActors())
	attack := all[args[0]]
	if attack == nil {
		fmt.Fprintln(os.Stderr, "no attacker", args[0])
		return 99
	}
	err := attack(args[1:])
	var broken brokenActor
	switch {
	case errors.As(err, &broken):
		fmt.Fprintln(os.Stderr, "the attacker does not work:", err)
		return 98
	case err != nil:
		fmt.Println("stopped:", err)
		return attackStopped
	}
	fmt.Println("succeeded")
	return attackSucceeded
}

// brokenActor says that an attack could not be tried.
type brokenActor struct{ error }

func actors() map[string]func([]string) error {
	return map[string]func([]string) error{
		"syscall":          reachKernel,
		"socket":           reachSocket,
		"mount-tmpfs":      mountTmpfs,
		"mount-api":        mountByDescriptor,
		"bind-over-skills": bindOverSkills,
		"remount-skills":   remountSkills,
		"setattr-skills":   setattrSkills,
		"umount-skills":    umountSkills,
		"fresh-proc":       freshProc,
		"unshare":          unshare,
		"clone":            cloneInto,
		"setns":            enterNamespace,
		"hostname":         setHostname,
		"ptrace-init":      traceInit,
		"vm-read-init":     readInitMemory,
		"steal-fd":         stealControlSocket,
		"open-init":        openInit,
		"list-init":        listInit,
		"leaked-fd":        readLeakedDescriptor,
		"spoil-executable": spoilOwnExecutable,
		"is-root":          isRoot,
		"device":           openDevice,
		"kill":             killProcess,
		"kill-init":        killInit,
		"see-process":      seeProcess,
		"connect":          connect,
		"push-input":       pushInput,
		"fork":             forkMany,
		"memory":           takeMemory,
		"fill":             fill,
		"spin":             spin,
		"shared-memory":    attachSharedMemory,
		"message-queue":    openMessageQueue,
	}
}

// raw makes a system call whose arguments point to nothing that Go manages.
func raw(nr uintptr, args ...uintptr) unix.Errno {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

// surface lists system calls that are refused before the kernel looks at what they ask: arguments that no caller could
// mean, and what the kernel itself says to them.
func surface() map[string]struct {
	try     func() unix.Errno
	reached unix.Errno // 0 is success
} {
	const none = ^uintptr(0)
	page := make([]byte, 3*4096)
	at := uintptr(unsafe.Pointer(&page[0]))
	return map[string]struct {
		try     func() unix.Errno
		reached unix.Errno
	}{
		"bpf":               {func() unix.Errno { return raw(unix.SYS_BPF, 0, at, 8192) }, unix.E2BIG},
		"keyctl":            {func() unix.Errno { return raw(unix.SYS_KEYCTL, 9999) }, unix.EOPNOTSUPP},
		"add_key":           {func() unix.Errno { return raw(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0) }, unix.EFAULT},
		"request_key":       {func() unix.Errno { return raw(unix.SYS_REQUEST_KEY, 0, 0, 0, 0) }, unix.EFAULT},
		"io_uring_setup":    {func() unix.Errno { return raw(unix.SYS_IO_URING_SETUP, 1, 0) }, unix.EFAULT},
		"io_uring_enter":    {func() unix.Errno { return raw(unix.SYS_IO_URING_ENTER, none, 0, 0, 0, 0, 0) }, unix.EBADF},
		"io_uring_register": {func() unix.Errno { return raw(unix.SYS_IO_URING_REGISTER, none, 0, 0, 0) }, unix.EINVAL},
		"userfaultfd":       {func() unix.Errno { return raw(unix.SYS_USERFAULTFD, 0x40000001) }, unix.EINVAL},
		"perf_event_open":   {func() unix.Errno { return raw(unix.SYS_PERF_EVENT_OPEN, at, 0, none, none, 1<<20) }, unix.EINVAL},
		"open_by_handle_at": {func() unix.Errno { return raw(unix.SYS_OPEN_BY_HANDLE_AT, none-99, at, 0) }, unix.EINVAL},
		"mount":             {func() unix.Errno { return raw(unix.SYS_MOUNT, 1, 1, 1, 0, 1) }, unix.EFAULT},
		"fsconfig":          {func() unix.Errno { return raw(unix.SYS_FSCONFIG, none, 0, 0, 0, 0) }, unix.EINVAL},
		"open_tree":         {func() unix.Errno { return raw(unix.SYS_OPEN_TREE, none-99, at, 1<<30) }, unix.EINVAL},
		"setns":             {func() unix.Errno { return raw(unix.SYS_SETNS, none, 0) }, unix.EBADF},
		"clone3":            {func() unix.Errno { return raw(unix.SYS_CLONE3, at, 8) }, unix.EINVAL},
		"socketpair":        {func() unix.Errno { return raw(unix.SYS_SOCKETPAIR, unix.AF_INET, unix.SOCK_STREAM, 0, at) }, unix.EOPNOTSUPP},
		"mptcp":             {func() unix.Errno { return raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 9999) }, unix.EINVAL},
		"subvolumes":        {func() unix.Errno { return raw(unix.SYS_IOCTL, none, 0x5000940e, at) }, unix.EBADF},
		"wide subvolumes":   {func() unix.Errno { return raw(unix.SYS_IOCTL, none, 1<<32|0x5000940e, at) }, unix.EBADF},
		"encryption":        {func() unix.Errno { return raw(unix.SYS_IOCTL, none, unix.FS_IOC_ADD_ENCRYPTION_KEY, at) }, unix.EBADF},
		"lease":             {func() unix.Errno { return raw(unix.SYS_FCNTL, none, unix.F_SETLEASE, unix.F_RDLCK) }, unix.EBADF},
		"wide lease":        {func() unix.Errno { return raw(unix.SYS_FCNTL, none, 1<<32|unix.F_SETLEASE, unix.F_RDLCK) }, unix.EBADF},
		"folder notices":    {func() unix.Errno { return raw(unix.SYS_FCNTL, none, unix.F_NOTIFY, 0) }, unix.EBADF},
		"folder delegation": {func() unix.Errno { return raw(unix.SYS_FCNTL, none, 1024+16, 0) }, unix.EBADF},
		"limits of init":    {func() unix.Errno { return limitInit("1") }, 0},
		"limits of threads": {func() unix.Errno { return limitInit("[2-9]*") }, 0},
	}
}

// limitInit sets a limit of init to what it is, through those of its threads whose numbers match: once from an address whose
// lower half is 0, and once from another.
func limitInit(threads string) unix.Errno {
	const low = 1 << 32
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, low, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
	if errno != 0 {
		return errno
	}
	found, err := filepath.Glob("/proc/1/task/" + threads)
	if err != nil || len(found) == 0 || at != low {
		return unix.ESRCH
	}
	for _, path := range found {
		tid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			return unix.EINVAL
		}
		for _, at := range []uintptr{low, low + 16} {
			if errno := raw(unix.SYS_PRLIMIT64, uintptr(tid), unix.RLIMIT_CORE, 0, at); errno != 0 {
				return errno
			}
			if raw(unix.SYS_PRLIMIT64, uintptr(tid), unix.RLIMIT_CORE, at, 0) == 0 {
				return 0
			}
		}
	}
	return unix.EPERM
}

// reachKernel succeeds when the kernel, not a filter before it, judges the call.
func reachKernel(args []string) error {
	call, ok := surface()[args[0]]
	if !ok {
		return brokenActor{fmt.Errorf("no system call %s", args[0])}
	}
	if errno := call.try(); errno != call.reached {
		return fmt.Errorf("%s says %w, the kernel would say %w", args[0], errno, call.reached)
	}
	return nil
}

var families = map[string][2]int{
	"vsock": {unix.AF_VSOCK, unix.SOCK_STREAM},
}

func reachSocket(args []string) error {
	f, ok := families[args[0]]
	if !ok {
		return brokenActor{fmt.Errorf("no family %s", args[0])}
	}
	_, err := unix.Socket(f[0], f[1], 0)
	return err
}

func mountTmpfs([]string) error {
	return unix.Mount("evil", "/home/sprite", "tmpfs", 0, "")
}

func mountByDescriptor([]string) error {
	config, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	if err := unix.FsconfigCreate(config); err != nil {
		return fmt.Errorf("fsconfig: %w", err)
	}
	mount, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	return unix.MoveMount(mount, "", unix.AT_FDCWD, "/home/sprite", unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func bindOverSkills([]string) error {
	if err := os.WriteFile("/workspace/hello", []byte("evil"), 0o755); err != nil {
		return brokenActor{err}
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, "/workspace", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == nil {
		err = unix.MoveMount(tree, "", unix.AT_FDCWD, "/skills", unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		if old := unix.Mount("/workspace", "/skills", "", unix.MS_BIND, ""); old != nil {
			return errors.Join(err, old)
		}
	}
	if b, err := os.ReadFile("/skills/hello"); err != nil || string(b) != "evil" {
		return fmt.Errorf("/skills/hello is still %q, %w", b, err)
	}
	return nil
}

func remountSkills([]string) error {
	if err := unix.Mount("", "/skills", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return err
	}
	return os.WriteFile("/skills/evil", nil, 0o644)
}

func setattrSkills([]string) error {
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/skills", 0, &attr); err != nil {
		return err
	}
	return os.WriteFile("/skills/evil", nil, 0o644)
}

func umountSkills([]string) error {
	if err := unix.Unmount("/skills", unix.MNT_DETACH); err != nil {
		return err
	}
	if _, err := os.Stat("/skills/hello"); err == nil {
		return errors.New("the skills are still there")
	}
	return nil
}

// freshProc mounts a /proc of its own, on which nothing is masked.
func freshProc([]string) error {
	return unix.Mount("proc", "/home/sprite", "proc", 0, "")
}

var spaces = map[string]int{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "uts": unix.CLONE_NEWUTS,
	"ipc": unix.CLONE_NEWIPC, "pid": unix.CLONE_NEWPID, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

func unshare(args []string) error {
	if args[0] == "user" { // which a process with threads cannot do for itself
		return exec.Command("unshare", "-U", "true").Run()
	}
	return unix.Unshare(spaces[args[0]])
}

func cloneInto(args []string) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(spaces[args[0]])}
	return cmd.Run()
}

func enterNamespace([]string) error {
	f, err := os.Open("/proc/self/ns/uts")
	if err != nil {
		return brokenActor{err}
	}
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWUTS)
}

func setHostname([]string) error { return unix.Sethostname([]byte("evil")) }

func traceInit([]string) error { return unix.PtraceSeize(1) }

// initAddress finds an address that init uses.
func initAddress() (uintptr, error) {
	b, err := os.ReadFile("/proc/1/maps")
	if err != nil {
		return 0, err
	}
	start, _, _ := strings.Cut(string(b), "-")
	at, err := strconv.ParseUint(start, 16, 64)
	return uintptr(at), err
}

func readInitMemory([]string) error {
	at, err := initAddress()
	if err != nil {
		at = 0x400000 // where executables of Go lie
	}
	buf := make([]byte, 16)
	_, err = unix.ProcessVMReadv(1, []unix.Iovec{{Base: &buf[0], Len: 16}}, []unix.RemoteIovec{{Base: at, Len: 16}}, 0)
	return err
}

func stealControlSocket([]string) error {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return brokenActor{err}
	}
	for n := range 64 {
		got, e := unix.PidfdGetfd(fd, n, 0)
		if e != nil {
			err = e
			continue
		}
		if kind, e := unix.GetsockoptInt(got, unix.SOL_SOCKET, unix.SO_DOMAIN); e == nil && kind == unix.AF_UNIX {
			return nil
		}
	}
	return fmt.Errorf("no socket of init's: %w", err)
}

// openInit reads something of init's in /proc.
func openInit(args []string) error {
	f, err := os.Open("/proc/1/" + args[0])
	if err != nil {
		return err
	}
	if args[0] == "mem" {
		at, err := initAddress()
		if err != nil {
			return err
		}
		if _, err := f.Seek(int64(at), 0); err != nil {
			return err
		}
	}
	_, err = f.Read(make([]byte, 16))
	if err != nil && args[0] == "environ" && err.Error() == "EOF" {
		return nil // it has none: that can be told only by reading
	}
	return err
}

func listInit(args []string) error {
	path := "/proc/1/" + args[0]
	if args[0] == "fd" {
		all, err := os.ReadDir(path)
		if err == nil && len(all) == 0 {
			err = errors.New("empty")
		}
		return err
	}
	_, err := os.Readlink(path)
	return err
}

// readLeakedDescriptor looks for the host's secret behind every descriptor that it was born with.
func readLeakedDescriptor([]string) error {
	for fd := 3; fd < 256; fd++ {
		buf := make([]byte, 64)
		if n, err := unix.Pread(fd, buf, 0); err == nil && string(buf[:n]) == leakedSecret {
			return nil
		}
	}
	return errors.New("nothing there")
}

const leakedSecret = "what the host left open"

// spoilOwnExecutable is started by init as /proc/self/exe: what runs is then the host's own lattice. It cannot be written
// while init runs, but an owner can do other things to a file.
func spoilOwnExecutable([]string) error {
	if err := unix.Chmod("/proc/self/exe", 0o777); err != nil {
		return err
	}
	return unix.Setxattr("/proc/self/exe", "user.evil", []byte("x"), 0)
}

func isRoot([]string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("still user %d", os.Geteuid())
	}
	return nil
}

func openDevice(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Mode()&fs.ModeDevice == 0 {
		return brokenActor{errors.New("no device")}
	}
	return err
}

func killProcess(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return brokenActor{err}
	}
	return unix.Kill(pid, unix.SIGKILL)
}

func seeProcess(args []string) error {
	b, err := os.ReadFile("/proc/" + args[0] + "/cmdline")
	if err == nil && !bytes.Contains(b, []byte(args[1])) {
		return fmt.Errorf("process %s is another one: %q", args[0], b)
	}
	return err
}

// killInit sends init every signal there is, the one that nothing survives last.
func killInit([]string) error {
	target := 1
	if os.Getppid() != target {
		target = os.Getppid() // a plain box
	}
	for sig := 1; sig <= 64; sig++ {
		if s := unix.Signal(sig); s != unix.SIGKILL && s != unix.SIGSTOP {
			unix.Kill(target, s) // one that is blocked, unknown or deadly is as good
		}
	}
	return unix.Kill(target, unix.SIGKILL)
}

// connect reaches a listener of the host's and reads what it says.
func connect(args []string) error {
	conn, err := net.DialTimeout(args[0], args[1], 5*time.Second)
	if err != nil {
		return err
	}
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 64)
	n, err := conn.Read(buf)
	if err == nil && string(buf[:n]) != leakedSecret {
		err = fmt.Errorf("somebody else: %q", buf[:n])
	}
	return err
}

// pushInput types a command into its own terminal: whoever reads there later would run it.
//
// The kernel looks at the lower half of a request only; "wide" has something in the upper one, for filters that look at both.
func pushInput(args []string) error {
	request := uintptr(unix.TIOCSTI)
	if len(args) > 0 {
		request |= 1 << 32
	}
	c := byte('x')
	if errno := raw(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&c))); errno != 0 {
		return errno
	}
	return nil
}

func forkMany(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return brokenActor{err}
	}
	var all []*exec.Cmd
	defer func() {
		for _, cmd := range all {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}()
	for range n {
		cmd := exec.Command("/bin/sleep", "1000")
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("after %d: %w", len(all), err)
		}
		all = append(all, cmd)
	}
	return nil
}

// takeMemory takes so many bytes and touches each page.
func takeMemory(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return brokenActor{err}
	}
	// In a child: the kernel's way to stop it is to kill.
	if len(args) == 1 {
		if out, err := exec.Command("/proc/self/exe", attackArg, "memory", args[0], "child").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < n; i += 4096 {
		b[i] = byte(i)
	}
	return nil
}

// fill writes so many bytes into a folder.
func fill(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return brokenActor{err}
	}
	path := filepath.Join(args[0], "fill")
	defer os.Remove(path)
	f, err := os.Create(path)
	if err != nil {
		return brokenActor{err}
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for range n >> 20 {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// spin burns processor time of its own, not of the clock on the wall.
func spin(args []string) error {
	limit, err := time.ParseDuration(args[0])
	if err != nil {
		return brokenActor{err}
	}
	for {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
			return brokenActor{err}
		}
		if time.Duration(ts.Nano()) > limit {
			return nil
		}
	}
}

func attachSharedMemory(args []string) error {
	id, err := strconv.Atoi(args[0])
	if err != nil {
		return brokenActor{err}
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(b, []byte(leakedSecret)) {
		return errors.New("another segment")
	}
	return nil
}

func openMessageQueue(args []string) error {
	name := append([]byte(args[0]), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_RDONLY, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// exitName is how an exit code of an attacker reads in a failure.
func exitName(code int) string {
	if slices.Contains([]int{attackSucceeded, attackStopped}, code) {
		return map[int]string{attackSucceeded: "succeeded", attackStopped: "stopped"}[code]
	}
	return fmt.Sprintf("ended with %d", code)
}
