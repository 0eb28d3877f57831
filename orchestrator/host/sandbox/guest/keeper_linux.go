package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// This file is about root where the kernel knows a single user in the box (Config.LoneRoot). Commands that are to be root run in
// a user namespace below the box's, in which that user is number 0 and has rootCapabilities over its own files and processes.
// No process can go there later: the filter of system calls refuses it to all, init included. So init starts one more
// process when it is behind every other wall, the keeper of root, which confines itself as init does and then starts commands
// for sudo and does the file calls of init.
//
// The kernel gives the owner of a namespace all capabilities over it, and every command of the box is the owner's. So a command
// may trace the keeper as it may trace any command of root. It gains no more than by sudo: the keeper is
// confined before the first command starts, and has no descriptor or secret of the host.

// keeperPatience is how long init waits for its keeper to be confined; less than the host waits for init.
const keeperPatience = 20 * time.Second

// startKeeper starts the keeper, which serves as StageKeep when it is confined. Init's end of the socket to it becomes KeeperFD.
func (b builder) startKeeper(l spec.Limits) error {
	own, its, err := channel.Pair()
	if err != nil {
		return err
	}
	defer own.Close()
	defer its.Close()
	mapped, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer mapped.Close()
	defer told.Close()
	steps, err := b.keeperSteps(int(its.Fd()), int(mapped.Fd()))
	if err != nil {
		return err
	}
	// Of all processes together the new namespace may have as many as commands may; init keeps its spare ones. The kernel takes
	// the limit of this moment.
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &most); err != nil {
		return err
	}
	fewer := unix.Rlimit{Cur: min(most.Cur, uint64(l.Pids)), Max: most.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &fewer); err != nil {
		return err
	}
	// Of a process that hides, like init, nothing in /proc can be written; nothing is there yet to hide from.
	hide := func(how uintptr) error { return unix.Prctl(unix.PR_SET_DUMPABLE, how, 0, 0, 0) }
	err = hide(1)
	if err == nil {
		pid, errno := forkCalls(unix.CLONE_NEWUSER, steps)
		if errno != 0 {
			err = errno
		} else {
			err = mapLoneRoot(pid)
		}
		if errno == 0 && err != nil {
			err = errors.Join(err, unix.Kill(pid, unix.SIGKILL)) // it waits, and knows nothing of this
		}
	}
	if err = errors.Join(err, hide(0), unix.Setrlimit(unix.RLIMIT_NPROC, &most)); err != nil {
		return fmt.Errorf("make a user namespace for root: %w", err)
	}
	if _, err := told.Write([]byte{1}); err != nil {
		return err
	}
	return unix.Dup3(int(own.Fd()), spec.KeeperFD, 0)
}

// mapLoneRoot makes the box's user number 0 in the namespace of a new process.
func mapLoneRoot(pid int) error {
	mapping := fmt.Sprintf("0 %d 1", spec.InsideID)
	for _, file := range []struct{ name, text string }{{"setgroups", "deny"}, {"uid_map", mapping}, {"gid_map", mapping}} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file.name), []byte(file.text), 0); err != nil {
			return err
		}
	}
	return nil
}

// systemCall is a call that a forked process makes. Addresses among the arguments point into holds.
type systemCall struct {
	number uintptr
	args   [6]uintptr
	holds  any
}

// keeperSteps is all that the keeper does between fork and its program. It has every capability over its own namespace then, and
// the walls of init but the filter.
func (b builder) keeperSteps(socket, mapped int) (steps []systemCall, err error) {
	do := func(number uintptr, args ...uintptr) {
		c := systemCall{number: number}
		copy(c.args[:], args)
		steps = append(steps, c)
	}
	buffer := make([]byte, 1)
	do(unix.SYS_READ, uintptr(mapped), addressOf(buffer), 1)
	steps[0].holds = buffer
	do(unix.SYS_SETSID)
	do(unix.SYS_DUP3, 1, 2, 0) // its output is not for the host
	do(unix.SYS_DUP3, uintptr(socket), spec.ControlFD, 0)
	do(unix.SYS_CLOSE, spec.KeeperFD) // the host's file that init was started from
	for c := uintptr(0); ; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
			break // past the last one that this kernel knows
		}
		if !slices.Contains(rootCapabilities, c) {
			do(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
		}
	}
	for _, program := range b.filters {
		load := []unix.SockFprog{{Len: uint16(len(program)), Filter: &program[0]}}
		do(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, addressOf(load))
		steps[len(steps)-1].holds = load
	}
	header := []unix.CapUserHeader{{Version: unix.LINUX_CAPABILITY_VERSION_3}}
	set := []unix.CapUserData{{Effective: rootMask(), Permitted: rootMask()}, {}}
	do(unix.SYS_CAPSET, addressOf(header), addressOf(set))
	steps[len(steps)-1].holds = [2]any{header, set}
	program, err := syscall.ByteSliceFromString(b.self)
	if err != nil {
		return nil, err
	}
	line, err := syscall.SlicePtrFromStrings([]string{"sprite-init", spec.InitArg, spec.StageKeep})
	if err != nil {
		return nil, err
	}
	environment := make([]*byte, 1)
	do(unix.SYS_EXECVE, addressOf(program), addressOf(line), addressOf(environment))
	steps[len(steps)-1].holds = [3]any{program, line, environment}
	return steps, nil
}

// addressOf returns where the first element of a slice lies, which the caller keeps alive and on the heap, as an interface does.
func addressOf[T any](s []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }

// forkCalls makes a child process that makes the calls, the last of which becomes another program, and ends at the first that fails.
// Nothing else of Go runs in it: it has no thread but this one.
//
//go:norace
//go:nosplit
func forkCalls(flags uintptr, calls []systemCall) (pid int, errno syscall.Errno) {
	child, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || child != 0 {
		return int(child), errno
	}
	for i := range calls {
		c := &calls[i]
		if _, _, errno = syscall.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5]); errno != 0 {
			break
		}
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
	}
}

// keeper is the keeper of root as init knows it. Init does not trust it: programs of the sprite may have taken it over.
type keeper struct {
	socket *channel.Socket

	mu      sync.Mutex // guards the fields below
	gone    bool
	last    uint64
	waiting map[uint64]chan channel.Answer // nil for a call that has its answer
}

// meetKeeper waits until the keeper is confined.
func meetKeeper() (*keeper, error) {
	socket, err := channel.NewSocket(os.NewFile(spec.KeeperFD, "keeper"), channel.MaxReply)
	if err != nil {
		return nil, err
	}
	var answer channel.Reply
	if err = socket.Conn.SetReadDeadline(time.Now().Add(keeperPatience)); err == nil {
		var files []*os.File
		files, err = socket.Receive(&answer)
		channel.CloseAll(files)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("wait for the process that keeps root: %w", err)
	case answer.Op != channel.OpReady:
		err = fmt.Errorf("%s: %s", answer.Step, answer.Error)
	default:
		err = socket.Conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		socket.Conn.Close()
		return nil, err
	}
	return &keeper{socket: socket, waiting: make(map[uint64]chan channel.Answer)}, nil
}

// read takes the keeper's answers until it has ended or k.socket is closed.
func (k *keeper) read() {
	for {
		var r channel.Reply
		files, err := k.socket.Receive(&r)
		k.mu.Lock()
		come := k.waiting[r.ID]
		delete(k.waiting, r.ID)
		if err != nil {
			k.gone = true
			for _, each := range k.waiting {
				close(each)
			}
			clear(k.waiting)
		}
		k.mu.Unlock()
		if come != nil && err == nil {
			come <- channel.Answer{Reply: r, Files: files} // there is room
			continue
		}
		channel.CloseAll(files)
		if come != nil {
			close(come)
		}
		if err != nil {
			return
		}
	}
}

// callKeeper has the keeper do a call, and returns when it is done or gone. The files stay the caller's.
func (k *keeper) callKeeper(ctx context.Context, c channel.Call, files []*os.File) (answer any, send []*os.File, err error) {
	come := make(chan channel.Answer, 1)
	k.mu.Lock()
	if k.gone {
		k.mu.Unlock()
		return nil, nil, keeperError{syscall.EPERM, sudo.ErrKeeperGone.Error()}
	}
	k.last++
	id := k.last
	k.waiting[id] = come
	k.mu.Unlock()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	k.sendRequest(channel.Request{Op: channel.OpCall, ID: id, Call: &c}, fds...)
	defer context.AfterFunc(ctx, func() { k.sendRequest(channel.Request{Op: channel.OpCancel, ID: id}) })()
	a, ok := <-come
	switch {
	case !ok:
		return nil, nil, keeperError{syscall.EPERM, sudo.ErrKeeperGone.Error()}
	case len(a.Held) > 0: // descriptors of the keeper's that could not come along; see hand.go of package channel
		channel.CloseAll(a.Files)
		k.sendRequest(channel.Request{Op: channel.OpTaken, ID: id})
		return nil, nil, syscall.EAGAIN
	case a.Code != 0 || a.Error != "":
		channel.CloseAll(a.Files)
		return nil, nil, keeperError{syscall.Errno(a.Code), a.Error}
	case len(a.Body) == 0:
		return nil, a.Files, nil
	}
	return a.Body, a.Files, nil
}

// sendRequest ends the conversation with a keeper that does not listen: a frame may be half sent.
func (k *keeper) sendRequest(r channel.Request, fds ...int) {
	err := k.socket.Conn.SetWriteDeadline(time.Now().Add(sudo.Timeout))
	if err == nil {
		err = k.socket.Send(r, fds...)
	}
	if err != nil {
		k.socket.Conn.Close()
	}
}

// keeperError is an error that the keeper reported by number and text.
type keeperError struct {
	errno syscall.Errno
	text  string
}

func (e keeperError) Error() string { return e.text }
func (e keeperError) Unwrap() error { return e.errno }
