package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/creack/pty"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// Proc is a process in a box.
type Proc struct {
	PID     int      // inside the box; of a plain box, the host's
	Program string   // path of the program that was found
	PTY     *os.File // master side, TTY only; the caller closes it. Reading it fails with EIO once the terminal is unused

	box *Box
	id  uint64
	tty bool
	// unwanted says that no caller waits for the start any more, prevented that the start hung and was killed (freeStart). Both
	// are guarded by box.mu.
	unwanted, prevented bool

	started chan channel.Reply // takes the one answer to exec
	exited  chan struct{}      // closed when code is set
	code    int
}

// Signal sends a signal, such as "TERM" or "SIGTERM", to the command's process group. A command that has ended is not an
// error.
func (p *Proc) Signal(sig string) error {
	n := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(sig), "SIG"))
	if n == 0 {
		return fmt.Errorf("signal %q: no such signal", sig)
	}
	select {
	case <-p.exited:
		return nil
	case <-p.box.done:
		return fmt.Errorf("signal %s: %w", sig, p.box.deathError())
	default:
		return p.box.sendRequest(channel.Request{Op: channel.OpSignal, ID: p.id, Signal: int(n)})
	}
}

// Resize sets the size of the command's terminal.
func (p *Proc) Resize(rows, cols uint16) error {
	if p.PTY == nil {
		return fmt.Errorf("resize process %d: it has no terminal", p.PID)
	}
	return pty.Setsize(p.PTY, &pty.Winsize{Rows: rows, Cols: cols})
}

// Wait returns the exit code, 128+n after signal n. Processes that the command started may still run and hold its output
// open. The error says that the box died first (ErrDied). Wait may be called by many.
func (p *Proc) Wait() (exitCode int, err error) {
	select {
	case <-p.exited:
		return p.code, nil
	case <-p.box.done:
	}
	select { // the exit may have come first
	case <-p.exited:
		return p.code, nil
	default:
		return 0, fmt.Errorf("wait for process %d: %w", p.PID, p.box.deathError())
	}
}

// completeStart completes p by init's answer to exec. Deliver has set PTY, unless init holds it.
func (p *Proc) completeStart(r channel.Reply) (*Proc, error) {
	if failed := (answered{r.Errno, r.Error}); r.Op == channel.OpFailed && spec.Short(failed) {
		return nil, spec.NewShortage(fmt.Errorf("start a command: %w", failed))
	}
	if r.Op == channel.OpFailed {
		return nil, &spec.StartError{Code: r.Code, Text: r.Error}
	}
	p.box.mu.Lock()
	prevented := p.prevented
	p.box.mu.Unlock()
	if prevented {
		if len(r.Held) > 0 {
			p.box.refuseHeld(r.ID)
		}
		p.box.giveUp(p) // it is on its way to its end
		return nil, &spec.StartError{Code: 126, Text: "start a command: another process of the sprite stopped it before it had begun"}
	}
	if p.tty && p.PTY == nil {
		files, err := p.box.fetchFiles(r)
		if err == nil && len(files) == 1 {
			p.PTY = copyMaster(files[0])
		}
		channel.CloseAll(files)
		if p.PTY == nil {
			p.box.giveUp(p)
			return nil, errors.Join(errNoTerminal, err)
		}
	}
	return p, nil
}

// errNoTerminal says that a command that was to have a terminal has none.
var errNoTerminal = errors.New("start a terminal: init handed over none")

// deliverReply brings a reply to the process that it concerns. Init may be in the hands of a program in the box: a reply that
// no call waits for is dropped, and so is a descriptor other than a terminal.
func (b *Box) deliverReply(r channel.Reply, files []*os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.procs[r.ID]
	if p == nil {
		channel.CloseAll(files)
		return
	}
	switch {
	case r.Op == channel.OpStarted && p.PID == 0:
		p.PID, p.Program = max(r.PID, 1), r.Program
		if p.tty && len(files) == 1 && !p.unwanted {
			p.PTY = copyMaster(files[0])
		}
		if len(r.Held) > 0 && (p.unwanted || !p.tty) {
			b.refuseUnheard(r.ID)
			r.Held = nil
		}
		if p.tty && p.PTY == nil && len(r.Held) != 1 {
			delete(b.procs, r.ID)
			r = channel.Reply{Op: channel.OpFailed, Code: 126, Error: errNoTerminal.Error()}
		}
		if b.cfg.Plain() {
			b.plain[r.PID] = true
		}
		p.started <- r
	case r.Op == channel.OpFailed && p.PID == 0:
		delete(b.procs, r.ID)
		p.started <- r
	case r.Op == channel.OpExited && p.PID != 0:
		delete(b.procs, r.ID)
		p.code = r.Code & 0xff
		// The number of a session that is over may soon be a stranger's.
		if b.cfg.Plain() && errors.Is(unix.Kill(-p.PID, 0), unix.ESRCH) {
			delete(b.plain, p.PID)
		}
		close(p.exited)
	}
	channel.CloseAll(files)
}

// copyMaster returns a copy of f that the runtime can poll, so that closing it ends a read; nil if f is no pty's master side.
func copyMaster(f *os.File) (copied *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	raw.Control(func(fd uintptr) {
		if !isMaster(int(fd)) {
			return
		}
		n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return
		}
		if err := unix.SetNonblock(n, true); err != nil {
			unix.Close(n)
			return
		}
		copied = os.NewFile(uintptr(n), "pty")
	})
	return copied
}
