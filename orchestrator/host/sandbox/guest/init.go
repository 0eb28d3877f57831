// Package guest is the init of boxes: it enters the view that the host planned, gives up its rights, and then starts commands
// and answers calls until the host's end of the socket closes. Start at [Main]. It knows the host by that socket alone.
package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/sudo"
	"golang.org/x/sync/errgroup"
)

// Main is the program of a box's init, and of sudo in a box. args follow InitArg on the command line, environ is the process's
// environment; the result is the exit status. It must be
// called before anything else of the executable has opened files or started goroutines.
func Main(args, environ []string) int {
	if len(args) > 0 && args[0] == spec.StageSudo {
		return sudo.Main(args[1:], environ)
	}
	if err := initMain(args); err != nil {
		fmt.Fprintln(os.Stderr, "sprite init:", err)
		return 1
	}
	return 0
}

func initMain(args []string) error {
	if len(args) == 0 {
		return errors.New("this is the inside of a sandbox; lattice starts it")
	}
	if args[0] == spec.StageHold {
		return holdOpen()
	}
	control, err := inheritedChannel()
	if err != nil {
		return err
	}
	switch args[0] {
	case spec.StageSetup:
		return setUp(control)
	case spec.StageServe, spec.StageRoot:
		left := spec.ParseWithout(args[1:])
		root := args[0] == spec.StageRoot
		if root {
			if err := layAside(); err != nil {
				return err
			}
		}
		if err := hardenInit(left); err != nil {
			return err
		}
		// The end of init ends a pid namespace of its own; elsewhere it must see to its descendants.
		return serveRequests(control, !left.Defended(spec.DefencePidNamespace), rooting{own: root, listens: root})
	case spec.StageLone:
		if err := hardenInit(nil); err != nil {
			return err
		}
		return serveRequests(control, false, besideKeeper(args[1:]))
	case spec.StageKeep:
		if err := hardenInit(nil); err != nil {
			return err
		}
		return serveRequests(control, false, rooting{lone: true, listens: true})
	default:
		return fmt.Errorf("unknown stage %q", args[0])
	}
}

// inheritedChannel uses a copy of the inherited socket, so that the second stage finds it in the same place.
func inheritedChannel() (*channel.Socket, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(spec.ControlFD)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("find the control socket: %w", err)
	}
	return channel.NewSocket(os.NewFile(uintptr(fd), "control"), channel.MaxRequest)
}

// setUp is the first stage.
func setUp(control *channel.Socket) error {
	runtime.LockOSThread()
	var r channel.Request
	if _, err := control.Receive(&r); err != nil {
		return fmt.Errorf("read what to prepare: %w", err)
	}
	if r.Op != channel.OpPrepare || r.Prepare == nil {
		return fmt.Errorf("read what to prepare: got %q", r.Op)
	}
	if r.Prepare.Level == spec.LevelProcess {
		runtime.UnlockOSThread()
		return servePlainly(control)
	}
	b, err := makeBuilder(*r.Prepare, control)
	if err != nil {
		return refuseBox(control, err)
	}
	r = channel.Request{}
	mounts, err := control.Receive(&r) // perhaps long after, or never
	if err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if r.Op != channel.OpSetup || r.Setup == nil {
		return fmt.Errorf("read the plan: got %q", r.Op)
	}
	return refuseBox(control, b.enterBox(*r.Setup, mounts))
}

// servePlainly is the only stage of a plain init.
func servePlainly(control *channel.Socket) error {
	var r channel.Request
	if _, err := control.Receive(&r); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if r.Op != channel.OpSetup {
		return fmt.Errorf("read the plan: got %q", r.Op)
	}
	if err := hardenInit(nil); err != nil {
		return err
	}
	if err := adoptOrphans(); err != nil {
		return err
	}
	return serveRequests(control, true, rooting{})
}

// refuseBox tells the host why there will be no box.
func refuseBox(control *channel.Socket, err error) error {
	refused := channel.Reply{Op: channel.OpRefused, Step: "make a sandbox", Error: err.Error()}
	if failure, ok := errors.AsType[*spec.SetupFailure](err); ok {
		refused.Step, refused.Error = failure.Step, failure.Err.Error()
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		refused.Code = int(errno)
	}
	return errors.Join(err, control.Send(refused))
}

// rooting is a process's part in starting commands as root. None of it is needed without root.
type rooting struct {
	own     bool    // this init has the capabilities of root laid aside; see asroot_linux.go
	lone    bool    // this process is the keeper of root; see keeper_linux.go
	listens bool    // it starts commands for those who ask
	keeper  *keeper // does the file calls of root for this init, nil for none
	missing string  // why this init has no keeper though it should
}

// besideKeeper meets the keeper, unless why says that none could be started.
func besideKeeper(why []string) (r rooting) {
	if len(why) > 0 {
		return rooting{missing: why[0]}
	}
	k, err := meetKeeper()
	if err != nil {
		return rooting{missing: err.Error()}
	}
	return rooting{keeper: k}
}

// server is init at work: one goroutine takes requests, one reaps.
type server struct {
	control *channel.Socket
	plain   bool
	root    rooting
	ctx     context.Context // ends with the conversation
	calls   errgroup.Group  // calls at work, channel.MaxCalls at most
	still   stillness

	mu      sync.Mutex     // held while a child is started, so that none is reaped before it is known
	pids    map[int]uint64 // commands by process id
	ids     map[uint64]int
	rooted  map[int]chan<- int            // take the exit codes of commands of root, by process id
	whole   map[int]bool                  // commands whose process group ends with them
	cancels map[uint64]context.CancelFunc // calls at work
	watches int                           // conversations about changes of files
	held    map[uint64][]*os.File         // files that the host has not taken yet; see hand.go of package channel
}

// serveRequests works until the socket ends. With init in a pid namespace, returning ends everything else in it.
func serveRequests(control *channel.Socket, plain bool, root rooting) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{control: control, plain: plain, root: root, ctx: ctx, rooted: make(map[int]chan<- int), pids: make(map[int]uint64), ids: make(map[uint64]int), whole: make(map[int]bool), cancels: make(map[uint64]context.CancelFunc), held: make(map[uint64][]*os.File)}
	s.calls.SetLimit(channel.MaxCalls)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	// Signals are the commands' business, not init's. Caught and dropped: ignored ones would stay ignored in commands.
	signal.Notify(make(chan os.Signal, 1))
	var reaper sync.WaitGroup
	reaper.Go(func() {
		for range children {
			s.reapChildren()
		}
	})
	asked := make(chan struct{}, 1)
	var trimmer sync.WaitGroup
	trimmer.Go(func() { trimMemory(ctx, asked) })
	var rooted sync.WaitGroup
	var err error
	if root.keeper != nil {
		rooted.Go(root.keeper.read)
		defer rooted.Wait()
	}
	if root.listens {
		var l *net.UnixListener
		if l, err = listenRoot(); err == nil {
			rooted.Go(func() { s.serveRoot(l) })
			defer rooted.Wait()
			defer l.Close()
		}
	}
	if err == nil {
		err = control.Send(channel.Reply{Op: channel.OpReady, Error: root.missing})
	}
	for err == nil {
		err = s.takeRequest()
		select {
		case asked <- struct{}{}:
		default: // it knows
		}
	}
	cancel()
	trimmer.Wait()
	if root.keeper != nil { // its calls end
		root.keeper.socket.Conn.Close()
	}
	_ = s.calls.Wait() // they could not answer, because the host is gone
	signal.Stop(children)
	close(children)
	reaper.Wait()
	if plain {
		s.endDescendants()
	}
	return nil // after any error the conversation is over
}

// trimAfter is how long init is asked nothing before it is taken for idle.
const trimAfter = time.Second

// trimMemory gives memory back to the system whenever nothing has been asked for a while: boxes that are idle may be many.
func trimMemory(ctx context.Context, asked <-chan struct{}) {
	quiet := time.NewTimer(trimAfter)
	defer quiet.Stop()
	for {
		select {
		case <-asked:
			quiet.Reset(trimAfter)
		case <-quiet.C:
			debug.FreeOSMemory()
		case <-ctx.Done():
			return
		}
	}
}

// takeRequest takes one request.
func (s *server) takeRequest() error {
	var r channel.Request
	files, err := s.control.Receive(&r)
	if err == nil && r.Op == channel.OpCall && r.Call != nil {
		s.performCall(r.ID, *r.Call, files) // closes them
		return nil
	}
	defer channel.CloseAll(files)
	if err != nil {
		return err
	}
	switch {
	case r.Op == channel.OpCancel:
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.cancels[r.ID]; cancel != nil {
			cancel()
		}
		return nil
	case r.Op == channel.OpTaken:
		s.releaseFiles(r.ID)
		return nil
	case r.Op == channel.OpExec && r.Exec != nil:
		return s.startCommand(r.ID, *r.Exec, files)
	case r.Op == channel.OpSignal:
		s.mu.Lock()
		defer s.mu.Unlock()
		if pid := s.ids[r.ID]; pid > 0 {
			s.killProcess(-pid, syscall.Signal(r.Signal))
		}
		return nil
	default:
		return fmt.Errorf("unknown request %q", r.Op)
	}
}

// startCommand starts a command and answers.
func (s *server) startCommand(id uint64, c channel.Command, files []*os.File) error {
	program, err := lookUp(c)
	if err != nil {
		return s.sendFailure(id, err)
	}
	std, master, err := commandStdio(c, files)
	defer channel.CloseAll(std)
	if err != nil {
		return s.sendFailure(id, err)
	}
	attr := &syscall.ProcAttr{Dir: string(c.Dir), Env: c.Env, Sys: childAttr(c.TTY, s.plain)}
	for _, f := range std {
		attr.Files = append(attr.Files, f.Fd())
	}
	s.mu.Lock() // until the answer is out: the reaper's word comes after it
	pid, err := syscall.ForkExec(program, c.Argv, attr)
	if err == nil {
		defer s.mu.Unlock()
		limitCommand(pid, s.plain)
		s.pids[pid], s.ids[id] = id, pid
		if c.Whole {
			s.whole[pid] = true
		}
		started := channel.Reply{Op: channel.OpStarted, ID: id, PID: pid, Program: program}
		if master == nil {
			return s.control.Send(started)
		}
		held, err := s.control.Hand(started, master)
		if held {
			s.held[id] = []*os.File{master} // mu is held until here: release waits
			return err
		}
		return errors.Join(err, master.Close())
	}
	s.mu.Unlock()
	if master != nil {
		master.Close() // nothing was written to it
	}
	if !spec.Short(err) {
		err = &spec.StartError{Code: 126, Text: fmt.Sprintf("start %s: %v", c.Program, err)}
	}
	return s.sendFailure(id, err)
}

func (s *server) sendFailure(id uint64, err error) error {
	r := channel.Reply{Op: channel.OpFailed, ID: id, Code: 126, Error: err.Error(), Errno: errnoOf(err)}
	if start, ok := errors.AsType[*spec.StartError](err); ok {
		r.Code = start.Code
	}
	if len(r.Error) > 4<<10 {
		r.Error = r.Error[:4<<10]
	}
	return s.control.Send(r)
}

// commandStdio gives the command's three descriptors and, with a terminal, its master.
func commandStdio(c channel.Command, files []*os.File) (std []*os.File, master *os.File, err error) {
	if c.TTY {
		master, slave, err := pty.Open()
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("all terminals of the sprite are in use: %w", syscall.EAGAIN)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("open a terminal: %w", err)
		}
		std = []*os.File{slave, slave, slave}
		if c.Rows > 0 && c.Cols > 0 {
			if err := pty.Setsize(slave, &pty.Winsize{Rows: c.Rows, Cols: c.Cols}); err != nil {
				master.Close()
				return std, nil, fmt.Errorf("size the terminal: %w", err)
			}
		}
		return std, master, nil
	}
	for _, given := range c.Stdio {
		var f *os.File
		if given && len(files) > 0 {
			f, files = files[0], files[1:]
		} else if f, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
			return std, nil, err
		}
		std = append(std, f)
	}
	return std, nil, nil
}

// lookUp finds the command's program as a shell would, by the command's own PATH, and checks its folder.
func lookUp(c channel.Command) (string, error) {
	name, folder := string(c.Program), string(c.Dir)
	if len(c.Argv) == 0 || name == "" {
		return "", &spec.StartError{Code: 127, Text: "no command given"}
	}
	if st, err := os.Stat(folder); err != nil {
		return "", &spec.StartError{Code: 126, Text: fmt.Sprintf("enter the working directory: %v", err)}
	} else if !st.IsDir() {
		return "", &spec.StartError{Code: 126, Text: fmt.Sprintf("enter the working directory: %s is not a directory", folder)}
	}
	if strings.Contains(name, "/") {
		return name, checkProgram(makeAbsolute(folder, name))
	}
	for _, dir := range filepath.SplitList(pathOf(c.Env)) {
		dir = cmp.Or(dir, ".")
		program := filepath.Join(makeAbsolute(folder, dir), name)
		if checkProgram(program) == nil {
			return program, nil
		}
	}
	return "", &spec.StartError{Code: 127, Text: fmt.Sprintf("start %s: command not found in PATH", name)}
}

func checkProgram(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &spec.StartError{Code: 127, Text: fmt.Sprintf("start %s: no such file", path)}
	case err != nil:
		return &spec.StartError{Code: 126, Text: fmt.Sprintf("start %s: %v", path, err)}
	case st.IsDir() || st.Mode()&0o111 == 0:
		return &spec.StartError{Code: 126, Text: fmt.Sprintf("start %s: not an executable file", path)}
	}
	return nil
}

func makeAbsolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func pathOf(env []string) (path string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v // the last one counts, as for most programs
		}
	}
	return path
}

// reapChildren collects every child that has ended, commands and orphans, and reports the commands.
func (s *server) reapChildren() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if !status.Exited() && !status.Signaled() {
			continue
		}
		code := status.ExitStatus()
		if status.Signaled() {
			code = 128 + int(status.Signal())
		}
		s.mu.Lock()
		id, ours := s.pids[pid]
		delete(s.pids, pid)
		delete(s.ids, id)
		whole := s.whole[pid]
		delete(s.whole, pid)
		if ended := s.rooted[pid]; ended != nil {
			ended <- code // there is room
			delete(s.rooted, pid)
		}
		s.mu.Unlock()
		if whole {
			s.killProcess(-pid, syscall.SIGKILL) // its number stays taken while the group has members
		}
		if ours {
			// A failure here means that the host is gone; next sees it too.
			_ = s.control.Send(channel.Reply{Op: channel.OpExited, ID: id, Code: code})
		}
	}
}

// holdOpen is all that the process of an id range does: it exists until its pipe ends.
func holdOpen() error {
	_, err := io.Copy(io.Discard, os.NewFile(spec.ControlFD, "pipe"))
	return err
}
