package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/sudo"
	"golang.org/x/sys/unix"
)

// This file is init's part in Config.AsRoot: it starts commands as user 0, or any other user of the box, for programs of the
// box that ask (sudo). Init has the capabilities of such a command in its permitted set, and takes them into the effective one
// of a single thread for as long as it takes to start a command or to send it a signal. File calls that ask for root it does
// on a thread that is user 0 and ends with the call. All else it does as the sprite's user.
// Other commands get none of them: they are not root, and no_new_privs holds.

// rootCapabilities are the capabilities of user 0 in a box. They suffice for package managers, and concern the box's own files
// and processes. Never among them: CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_MKNOD, CAP_BPF, CAP_SYS_MODULE.
var rootCapabilities = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE,
}

// rootMask is rootCapabilities as the kernel's set; all are among the first 32.
func rootMask() (mask uint32) {
	for _, c := range rootCapabilities {
		mask |= 1 << c
	}
	return mask
}

const (
	maxRootCommand = 4 << 20          // bytes of a request
	maxRootCalls   = 64               // at a time
	rootWait       = 10 * time.Second // for the request of a connection
)

// allThreads reports whether capabilities of all threads can be set, which programs that are linked with C libraries cannot.
func allThreads() bool {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0)
	return errno != syscall.ENOTSUP
}

// keepForRoot has the second stage find rootCapabilities, which are all that this thread keeps.
func keepForRoot() error {
	mask := rootMask()
	set := [2]unix.CapUserData{{Effective: mask, Permitted: mask, Inheritable: mask}}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &set[0]); err != nil {
		return spec.FailedAt("drop capabilities", err)
	}
	for _, c := range rootCapabilities {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return spec.FailedAt("keep capabilities for root", err)
		}
	}
	return nil
}

// layAside puts the capabilities that the second stage began with where no thread uses them and no command gets them.
func layAside() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("empty the ambient set: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	set := [2]unix.CapUserData{{Permitted: rootMask()}}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&set)), 0)
	runtime.KeepAlive(&set)
	if errno != 0 {
		return fmt.Errorf("lower capabilities: %w", errno)
	}
	return nil
}

// withPrivilege does something with the capabilities of root, where init has them. do does not wait for other goroutines.
func (s *server) withPrivilege(do func()) {
	if !s.root.own {
		do()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	set := [2]unix.CapUserData{{Effective: rootMask(), Permitted: rootMask()}}
	_ = unix.Capset(&header, &set[0]) // init has them; without them do fails
	defer func() {
		set[0].Effective = 0
		if unix.Capset(&header, &set[0]) != nil {
			runtime.LockOSThread() // once more: the thread ends with the goroutine
		}
	}()
	do()
}

// asRoot calls do as the box's user 0, on a thread that ends with it. do must not start a goroutine: that would run as the
// sprite's user.
func (s *server) asRoot(do func()) error {
	if !s.root.own {
		return syscall.EPERM
	}
	done := make(chan error, 1)
	go func() { done <- onOwnThread(becomeRoot, do) }() // awaited below
	return <-done
}

// onOwnThread changes the user of the calling goroutine's thread by become, and then calls do. The thread ends with the
// goroutine.
func onOwnThread(become func() error, do func()) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() { // this thread ends only with init
		defer runtime.UnlockOSThread()
		done := make(chan error, 1)
		go func() { done <- onOwnThread(become, do) }() // on another thread, while this one is taken
		return <-done
	}
	if err := become(); err != nil {
		return err
	}
	do()
	return nil
}

// becomeRoot makes this thread user 0, with rootCapabilities.
func becomeRoot() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	set := [2]unix.CapUserData{{Effective: rootMask(), Permitted: rootMask()}}
	if err := unix.Capset(&header, &set[0]); err != nil {
		return err
	}
	// As system calls: package syscall would change all threads.
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, 0, 0, 0); errno != 0 {
			return errno
		}
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // fs.suid_dumpable may have changed it
}

// killProcess sends a signal to a process or, if pid is negative, a group, of any user.
func (s *server) killProcess(pid int, signal syscall.Signal) {
	s.withPrivilege(func() { syscall.Kill(pid, signal) }) // gone already is as good
}

// serveRoot starts commands for those who connect, until l is closed, and waits for all.
func (s *server) serveRoot(l *net.UnixListener) {
	slots := make(chan struct{}, maxRootCalls)
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-time.After(10 * time.Millisecond): // a shortage
			case <-s.ctx.Done():
				return
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		calls.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			defer context.AfterFunc(s.ctx, func() { conn.Close() })()
			s.rootCall(&channel.Socket{Conn: conn, Limit: maxRootCommand})
		})
	}
}

// rootCall starts one command and stays with it. A client that is gone takes its command along.
func (s *server) rootCall(c *channel.Socket) {
	if c.Conn.SetReadDeadline(time.Now().Add(rootWait)) != nil {
		return
	}
	var in struct {
		Root *sudo.Request `json:"root"`
	}
	files, err := c.Receive(&in)
	if err != nil || in.Root == nil || in.Root.Command.TTY || c.Conn.SetReadDeadline(time.Time{}) != nil {
		channel.CloseAll(files)
		return
	}
	pid, ended, err := s.startAs(*in.Root, files)
	if err != nil {
		failed := channel.Reply{Op: channel.OpFailed, Code: 126, Error: err.Error()}
		if start, ok := errors.AsType[*spec.StartError](err); ok {
			failed.Code = start.Code
		}
		_ = c.Send(failed) // a client that is gone needs none
		return
	}
	gone := make(chan struct{})
	go func() { // ends with the connection, which this call closes
		defer close(gone)
		for {
			var r channel.Request
			files, err := c.Receive(&r)
			channel.CloseAll(files)
			if err != nil {
				return
			}
			if r.Op == channel.OpSignal && r.Signal > 0 && r.Signal < 65 {
				s.signalRoot(pid, syscall.Signal(r.Signal))
			}
		}
	}()
	select {
	case code := <-ended:
		_ = c.Send(channel.Reply{Op: channel.OpExited, Code: code})
		c.Conn.Close()
		<-gone
	case <-gone:
		s.signalRoot(pid, syscall.SIGHUP)
		s.signalRoot(pid, syscall.SIGCONT)
	}
}

// signalRoot signals the group of a root command that has not been reaped.
func (s *server) signalRoot(pid int, signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rooted[pid] != nil {
		s.killProcess(-pid, signal)
	}
}

// startAs starts a command as another user of the box. It closes files.
func (s *server) startAs(r sudo.Request, files []*os.File) (pid int, ended <-chan int, err error) {
	std, _, err := commandStdio(r.Command, files)
	defer channel.CloseAll(files)
	if err != nil {
		channel.CloseAll(std)
		return 0, nil, err
	}
	defer channel.CloseAll(std)
	attr := &syscall.ProcAttr{Dir: string(r.Command.Dir), Env: r.Command.Env, Sys: &syscall.SysProcAttr{
		// A lone root has no other groups, and the kernel refuses to set them.
		Setsid: true, Credential: &syscall.Credential{Uid: r.UID, Gid: r.GID, Groups: slices.Clone(r.Groups), NoSetGroups: s.root.lone},
	}}
	for _, f := range std {
		attr.Files = append(attr.Files, f.Fd())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withPrivilege(func() {
		var program string
		if program, err = lookUp(r.Command); err == nil {
			if pid, err = syscall.ForkExec(program, r.Command.Argv, attr); err != nil {
				err = &spec.StartError{Code: 126, Text: fmt.Sprintf("start %s: %v", r.Command.Program, err)}
			}
		}
	})
	if err != nil {
		return 0, nil, err
	}
	if s.root.lone {
		limitCommand(pid, false)
	}
	done := make(chan int, 1)
	s.rooted[pid] = done
	return pid, done, nil
}

// listenRoot opens the socket for requests of root (package sudo). /run is empty when init begins.
func listenRoot() (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sudo.Socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for requests of root: %w", err)
	}
	return l, nil
}
