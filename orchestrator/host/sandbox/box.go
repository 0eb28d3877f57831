// Package sandbox runs the commands of one sprite apart from the host that owns it.
//
// Start with spec.Config and Start: Start gives a Box, Box.Exec runs a command in it, Box.Stop ends everything in it. A host that
// starts many has a Starter, which does most of the next start ahead. The executable named by spec.Config.Self must call Main of
// package guest when its first argument is spec.InitArg; it then becomes the box's init. Importing package early does that, before
// the rest of the executable costs anything.
//
// The actors:
//
//	host process ── control socket (inherited, never a path) ── init ── commands, each in a session of its own
//
// Init is pid 1 of a pid namespace. The host does not trust init: it grants init's messages no more than a sprite may do
// itself; init trusts the host. When the socket ends, init ends, and the kernel ends all processes of its pid namespace: a
// killed host leaves neither processes nor mounts.
//
// A box is made of user, mount, pid, ipc, uts and control group namespaces, and with spec.Config.Network of a network namespace;
// without it the network is the host's. Commands run as user "sprite" (1000) without capabilities and without the power to
// gain any; on the host they are the user that Config.Owner names, never root. They see a read-only view of the host's system
// folders, and otherwise only the folders of Config. Some commands of a box may be its root: see Config.Rooted and
// Config.LoneRoot. Control groups limit the resources of a box and freeze it
// (Box.Freeze) where this process may make them; BoxLimits.Enforced tells which limits hold. Sweep removes, at the start of a
// host, the groups of one that was killed.
//
// Where the system refuses namespaces, Start returns a *Refusal with the reason and the remedy. It never lowers the level by
// itself: the caller decides to ask for spec.LevelProcess, and gets a plain process tree whose paths are translated. A plain box
// keeps processes together; it is not a boundary against the programs in it.
//
// The parts are packages, top to bottom: this one is the host's side of a box, guest is its init, channel the socket between
// them, view the file system of a box, cgroup and idrange its groups and ids, and spec the types that all of them use.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/idrange"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
	"golang.org/x/sync/errgroup"
)

// Limits on waiting for an init that does not do its part.
const (
	setupTimeout = 30 * time.Second       // init builds the box
	sendTimeout  = 10 * time.Second       // init takes a request
	startTimeout = 30 * time.Second       // init starts a command
	startLook    = 100 * time.Millisecond // how often a stopped start is looked for; see freeStart
	endTimeout   = 10 * time.Second       // a plain init ends its processes
)

// Box is a running sandbox. All its processes end with it, and it ends with the host process. Its methods may be called
// from several goroutines.
type Box struct {
	cfg     spec.Config
	ids     *idrange.Range // nil without Config.OwnIDs
	cmd     *exec.Cmd
	group   *cgroup.Group
	control *channel.Socket
	stderr  *tail
	network *Network       // nil without Config.Network
	keeper  keeper         // of Config.LoneRoot
	noRoot  string         // why there is none
	tasks   errgroup.Group // the reader of init's replies and the waiter for its end
	slots   chan struct{}  // one taken by each call
	quiet   chan struct{}  // closed when the reader has ended
	done    chan struct{}
	memory  atomic.Int64 // the limit that SetMemory set, 0 for Config.Limits'

	holding sync.Mutex // guards held, and is held while processes are being stopped or let go
	held    int        // how many want the box to stand still

	mu     sync.Mutex // guards the fields below
	lastID uint64
	procs  map[uint64]*Proc
	calls  map[uint64]chan channel.Answer // nil for an abandoned call
	plain  map[int]bool                   // sessions of a plain box that still have processes, to be ended should init be killed
	cause  error                          // why the box ended
	awake  chan struct{}                  // closed when a frozen box is thawed; nil of one that is not frozen
}

// Start makes a box and returns when commands can run in it. A *Refusal means that the system does not allow it. The
// caller must Stop the box. See Starter for who starts one after the other.
func Start(cfg spec.Config) (*Box, error) {
	cfg, err := cfg.Check()
	if err != nil {
		return nil, err
	}
	s, err := startInit(cfg.Kind())
	if err != nil {
		return nil, err
	}
	return s.makeBox(cfg)
}

// setUp has init build the box, whose network, if it has one of its own, init has readied by itself.
func (b *Box) setUp(p view.Plan, mounts []*os.File) error {
	if err := b.control.Conn.SetDeadline(time.Now().Add(setupTimeout)); err != nil {
		return fmt.Errorf("set up the sandbox: %w", err)
	}
	if b.cfg.OwnNetwork() {
		if err := b.setUpNetwork(); err != nil {
			return err
		}
	}
	fds := make([]int, len(mounts))
	for i, m := range mounts {
		fds[i] = int(m.Fd())
	}
	sendErr := b.control.Send(channel.Request{Op: channel.OpSetup, Setup: &p}, fds...)
	var answer channel.Reply
	files, err := b.control.Receive(&answer)
	channel.CloseAll(files)
	if err != nil && sendErr != nil {
		return &unborn{sendErr, b.stderr}
	}
	if err := checkReply(channel.OpReady, answer, err, b.stderr); err != nil {
		return err
	}
	if b.cfg.LoneRoot() {
		b.noRoot = answer.Error
		b.keeper = findKeeper(b.cmd.Process.Pid)
	}
	return b.control.Conn.SetDeadline(time.Time{})
}

func (b *Box) setUpNetwork() error {
	var answer channel.Reply
	files, err := b.control.Receive(&answer)
	if err := checkReply(channel.OpNetwork, answer, err, b.stderr); err != nil {
		channel.CloseAll(files)
		return err
	}
	if len(answer.Held) > 0 {
		channel.CloseAll(files)
		files, err = b.fetchFiles(answer)
	}
	if err == nil {
		b.network, err = takeNetwork(answer, files)
	}
	if err != nil {
		return fmt.Errorf("set up the sandbox: %w", err)
	}
	return nil
}

// checkReply returns why the reply of init, which makes the box, is not op.
func checkReply(op string, answer channel.Reply, err error, said *tail) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("set up the sandbox: init says nothing for %v; the machine may be overloaded, or a file system hang", setupTimeout)
	case err != nil:
		return &unborn{fmt.Errorf("init ended: %w", err), said}
	case answer.Op == channel.OpRefused:
		return refusalOf(spec.FailedAt(answer.Step, answered{answer.Code, answer.Error}))
	case answer.Op != op:
		return fmt.Errorf("set up the sandbox: init answers %q", answer.Op)
	}
	return nil
}

// Exec is ExecContext for callers who wait as long as it takes. It ends all the same: a box whose init falls silent is ended.
func (b *Box) Exec(p spec.Process) (*Proc, error) { return b.ExecContext(context.Background(), p) }

// ExecContext starts a command. A *StartError means that there is no such command or folder; ErrDied that the box has ended.
// When ctx ends before the command has started, it is killed as soon as it does; afterwards ctx means nothing to it.
func (b *Box) ExecContext(ctx context.Context, p spec.Process) (*Proc, error) {
	c := channel.Command{Program: []byte(p.Program), Argv: p.Argv, Env: p.Env, Dir: []byte(p.Dir), TTY: p.TTY, Rows: p.Rows, Cols: p.Cols, Whole: p.Whole}
	if len(c.Argv) == 0 {
		return nil, &spec.StartError{Code: 127, Text: "no command given"}
	}
	if p.Program == "" {
		c.Program = []byte(c.Argv[0])
	}
	if p.Dir == "" {
		c.Dir = []byte("/workspace")
	}
	if b.cfg.Plain() {
		c = translateCommand(b.cfg, c)
	}
	var fds []int
	if !p.TTY {
		for i, f := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
			if f != nil {
				c.Stdio[i] = true
				fds = append(fds, int(f.Fd())) // Fd makes it blocking, as commands expect
			}
		}
	}
	proc := &Proc{box: b, tty: p.TTY, started: make(chan channel.Reply, 1), exited: make(chan struct{})}
	b.mu.Lock()
	b.lastID++
	proc.id = b.lastID
	b.procs[proc.id] = proc
	b.mu.Unlock()

	if err := b.waitAwake(ctx); err != nil {
		b.forgetCall(proc.id)
		return nil, fmt.Errorf("start %s: %w", c.Program, err)
	}
	err := b.sendRequest(channel.Request{Op: channel.OpExec, ID: proc.id, Exec: &c}, fds...)
	runtime.KeepAlive(p)
	if err != nil {
		b.forgetCall(proc.id)
		return nil, fmt.Errorf("start %s: %w", c.Program, err)
	}
	silent, look := time.NewTimer(startTimeout), time.NewTicker(startLook)
	defer silent.Stop()
	defer look.Stop()
	for {
		select {
		case r := <-proc.started:
			return proc.completeStart(r)
		case <-look.C:
			if freeStart(b.cmd.Process.Pid) {
				b.noteAbandoned()
			}
		case <-b.done:
			select { // the answer may have come first
			case r := <-proc.started:
				return proc.completeStart(r)
			default:
				return nil, fmt.Errorf("start %s: %w", c.Program, b.deathError())
			}
		case <-ctx.Done():
			b.giveUp(proc)
			return nil, fmt.Errorf("start %s: %w", c.Program, ctx.Err())
		case <-silent.C:
			if b.isFrozen() { // by a later call
				silent.Reset(startTimeout)
				continue
			}
			b.endInit(fmt.Errorf("init does not start %s", c.Program))
		}
	}
}

// noteAbandoned notes that the start that init is at has been given up: it takes one after another.
func (b *Box) noteAbandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var first *Proc
	for _, p := range b.procs {
		if p.PID == 0 && (first == nil || p.id < first.id) {
			first = p
		}
	}
	if first != nil {
		first.prevented = true
	}
}

// giveUp has a command killed whose caller has gone. Init starts it, and then reads on.
func (b *Box) giveUp(p *Proc) {
	b.mu.Lock()
	p.unwanted = true
	terminal := p.PTY
	b.mu.Unlock()
	if terminal != nil { // it has started just now
		terminal.Close()
	}
	select {
	case r := <-p.started: // just now, too
		if len(r.Held) > 0 {
			b.refuseHeld(r.ID)
		}
	default:
	}
	_ = b.sendRequest(channel.Request{Op: channel.OpSignal, ID: p.id, Signal: int(syscall.SIGKILL)}) // a box that does not listen ends by this
}

// sendRequest refuses to wait forever for an init that no longer listens.
func (b *Box) sendRequest(r channel.Request, fds ...int) error {
	if err := b.control.Conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return b.sendFailed(err)
	}
	return b.sendFailed(b.control.Send(r, fds...))
}

func (b *Box) sendFailed(err error) error {
	if err == nil || errors.Is(err, syscall.ETOOMANYREFS) { // see channel.send
		return err
	}
	// A frame may be half sent; nothing sensible can follow it. The box ends, and its waiters get the error.
	b.endInit(err)
	return fmt.Errorf("%w: %w", spec.ErrDied, err)
}

// Stop ends everything in the box and waits until it is gone. It may be called more than once.
func (b *Box) Stop() error { return b.StopFor(errors.New("stopped by the host")) }

// StopFor is Stop with a reason, which ErrDied tells to those who wait for something in the box.
func (b *Box) StopFor(cause error) error {
	b.endInit(cause)
	patience := time.NewTimer(endTimeout)
	defer patience.Stop()
	select {
	case <-b.done:
	case <-patience.C:
		b.cmd.Process.Kill() // a plain init that could not end its processes; wait sees to the rest
		b.group.Thaw()
	}
	return b.tasks.Wait()
}

// endInit makes init end; read and wait take it from there.
func (b *Box) endInit(cause error) {
	b.mu.Lock()
	if b.cause == nil {
		b.cause = cause
	}
	b.mu.Unlock()
	if b.cfg.Plain() {
		// Init ends its processes when the socket ends; killing it at once would leave them.
		b.control.Conn.CloseWrite()
	} else {
		b.cmd.Process.Kill() // already gone is as good
	}
	b.group.Thaw() // who is held by an older kind of group does not even die
}

// Done is closed when the box has ended, for any reason.
func (b *Box) Done() <-chan struct{} { return b.done }

// Config returns the configuration of the box, with its defaults. A plain box is a process tree in which /workspace and the
// others do not exist under these names; Exec translates the paths that it can (see Config.HostPath).
func (b *Box) Config() spec.Config { return b.cfg }

// NoRoot says why the box has no root, although its configuration has one; "" when that is not so.
func (b *Box) NoRoot() string { return b.noRoot }

// Level returns how firmly this box is isolated.
func (b *Box) Level() spec.Level { return b.cfg.Level }

// read passes on init's replies until the socket ends. A violation of the protocol ends the box.
func (b *Box) read() error {
	defer close(b.quiet)
	for {
		var r channel.Reply
		files, err := b.control.Receive(&r)
		if err != nil {
			channel.CloseAll(files)
			b.endInit(err)
			return nil // the end of the box is not a failure of the reader
		}
		if r.Op == channel.OpAnswer {
			b.deliverAnswer(r, files)
			continue
		}
		b.deliverReply(r, files)
	}
}

// awaitInit outlives init, lets the reader take its last words, and then releases everybody who waits for the box.
func (b *Box) awaitInit() error {
	err := b.cmd.Wait()
	// The socket has ended with init, unless something that left a plain box still holds it.
	if err := b.control.Conn.SetReadDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("end the control socket: %w", err)
	}
	<-b.quiet
	b.mu.Lock()
	b.cause = fmt.Errorf("%w (init: %v)", b.cause, b.cmd.ProcessState)
	b.mu.Unlock()
	if err != nil {
		procfs.EndSessions(b.plain) // an init that ends by itself has done it; nothing is delivered any more
	}
	b.control.Conn.Close()
	left := b.group.Remove()
	if left == nil {
		b.ids.Release()
	}
	close(b.done)
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil // how init ended is in cause
	}
	return errors.Join(err, left)
}

func (b *Box) deathError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("%w: %w", spec.ErrDied, b.cause)
}

func (b *Box) forgetCall(id uint64) {
	b.mu.Lock()
	delete(b.procs, id)
	b.mu.Unlock()
}

// answered is an error that init reported by number and text.
type answered struct {
	code int
	text string
}

func (a answered) Error() string { return a.text }

func (a answered) Is(target error) bool {
	own := syscall.Errno(a.code)
	return a.code != 0 && (target == own || own.Is(target)) // also fs.ErrNotExist and the like
}

// tail keeps the beginning of init's stderr, which holds the reason of a panic.
type tail struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := 8<<10 - t.text.Len(); room > 0 {
		t.text.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text.Len() == 0 {
		return "it said nothing"
	}
	return "it said: " + strings.TrimSpace(t.text.String())
}
