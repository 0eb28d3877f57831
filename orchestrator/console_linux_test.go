package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/cli"
)

// screenLimit is the time after which a test that waits for the screen has failed. It is many times what any of them takes.
const screenLimit = 2 * time.Minute

// screen is a person's terminal in which lattice runs.
type screen struct {
	t     *testing.T
	cmd   *exec.Cmd
	pty   *os.File
	tty   *os.File // the other end, which stays open so that its state can be read
	ended chan error

	mu    sync.Mutex // guards the fields below
	text  bytes.Buffer
	grown chan struct{} // closed at the next output
}

// newHome is a state directory with a short path and a sprite called box.
func newHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp(buildDir, "home-")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := latticeIn(t, home, "sprite", "create", "box").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return home
}

func open(t *testing.T, home string, args ...string) *screen {
	t.Helper()
	return openCommand(t, latticeIn(t, home, args...))
}

// openCommand starts a command on a terminal.
func openCommand(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	s := &screen{t: t, cmd: cmd, ended: make(chan error, 1), grown: make(chan struct{})}
	var err error
	if s.pty, s.tty, err = pty.Open(); err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(s.pty, &pty.Winsize{Rows: 30, Cols: 90}); err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.tty, s.tty, s.tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := s.pty.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			close(s.grown)
			s.grown = make(chan struct{})
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	all.Go(func() { s.ended <- s.cmd.Wait() })
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // of a test that failed
		s.tty.Close()
		s.pty.Close()
		all.Wait()
	})
	return s
}

// wait returns what the screen shows up to text, after what it showed before; limit is only for tests that fail.
func (s *screen) wait(text string) (before string) {
	s.t.Helper()
	limit := time.After(screenLimit)
	for {
		s.mu.Lock()
		if i := strings.Index(s.text.String(), text); i >= 0 {
			before = string(s.text.Next(i))
			s.text.Next(len(text))
			s.mu.Unlock()
			return before
		}
		grown := s.grown
		s.mu.Unlock()
		select {
		case <-grown:
		case <-limit:
			s.t.Fatalf("the screen never showed %q; it shows %q", text, s.text.String())
		}
	}
}

func (s *screen) type_(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.pty, text); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for lattice to end and returns its exit code.
func (s *screen) end() int {
	s.t.Helper()
	select {
	case err := <-s.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			s.t.Fatal(err)
		}
		if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()) // as a shell reports it
		}
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(screenLimit):
		s.t.Fatalf("lattice did not end; the screen shows %q", s.text.String())
		return 0
	}
}

// raw reports whether keys reach the reader at once, unseen and without making signals.
func (s *screen) raw() bool {
	s.t.Helper()
	state, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return state.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
}

func TestConsole(t *testing.T) {
	home := newHome(t)
	s := open(t, home, "sprite", "console", "box")
	s.wait("shell in sprite box")
	s.type_("echo $((6*7)) $TERM; stty size\r")
	s.wait("42 vt220\r\n30 90\r\n")
	if !s.raw() {
		t.Error("the terminal is not raw")
	}
	if err := pty.Setsize(s.pty, &pty.Winsize{Rows: 50, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	s.type_("until [ \"$(stty size)\" = '50 120' ]; do sleep 0.02; done; echo re''sized\r")
	s.wait("resized\r\n")
	// Ctrl-C goes to what runs there, and to nothing else.
	s.type_("sh -c 'trap \"echo ca\"\"ught; exit\" INT; echo be\"\"gun; while :; do sleep 0.05; done'\r")
	s.wait("begun\r\n")
	s.type_("\x03")
	s.wait("caught\r\n")
	s.type_("echo st''ill here\r")
	s.wait("still here\r\n")
	// The escape character means something at the beginning of a line only.
	s.type_("~?")
	s.wait("detach; the command keeps running")
	s.type_("echo a~.b\r")
	s.wait("a~.b\r\n")
	s.type_("exit 7\r")
	if code := s.end(); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	if s.raw() {
		t.Error("the terminal is still raw")
	}
}

func TestTerminalIsPutBack(t *testing.T) {
	home := newHome(t)
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			s := open(t, home, "sprite", "exec", "box", "-t", "--", "sh", "-c", "trap '' TERM HUP; echo ready; sleep 1000")
			s.wait("ready")
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := s.end(); code == 0 || s.raw() {
				t.Errorf("exit code %d, raw %t", code, s.raw())
			}
		})
	}
	t.Run("the sprite is removed", func(t *testing.T) {
		s := open(t, home, "sprite", "exec", "box", "-t", "--", "sh", "-c", "echo ready; sleep 1000")
		s.wait("ready")
		if out, err := latticeIn(t, home, "sprite", "rm", "box").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.wait("lattice sprite sessions box")
		if code := s.end(); code != 5 || s.raw() {
			t.Errorf("exit code %d, want 5; raw %t", code, s.raw())
		}
	})
}

// TestDetach: ~. leaves a command running where its host lives on, and --attach comes back to it.
func TestDetach(t *testing.T) {
	home := newHome(t)
	host := open(t, home, "sprite", "exec", "box", "--", "sh", "-c", "echo host; exec sleep 1000") // leads
	host.wait("host")
	s := open(t, home, "sprite", "exec", "box", "--tty=auto", "--", "sh", "-c", "echo first; read word; echo got $word; exit 9")
	s.wait("first")
	s.type_("~.")
	s.wait("--attach ")
	session := strings.TrimSpace(s.wait("\n"))
	if code := s.end(); code != 0 || s.raw() {
		t.Errorf("exit code %d, raw %t", code, s.raw())
	}
	if out, err := latticeIn(t, home, "sprite", "sessions", "box").Output(); err != nil || !strings.Contains(string(out), session) {
		t.Errorf("sessions: %v: %s", err, out)
	}
	s = open(t, home, "sprite", "exec", "box", "--attach", session)
	s.wait("first") // what was shown comes again
	s.type_("back\r")
	s.wait("got back")
	if code := s.end(); code != 9 || s.raw() {
		t.Errorf("after --attach: exit code %d, want 9; raw %t", code, s.raw())
	}
	if code := open(t, home, "sprite", "exec", "box", "--attach", session).end(); code != 3 {
		t.Errorf("--attach to what has ended: exit code %d, want 3", code)
	}
	_ = host.cmd.Process.Signal(os.Interrupt)
	host.end()
}

// TestInterruptOfExec: without a terminal of its own, a command gets the interrupt as a signal and says how it ends.
func TestInterruptOfExec(t *testing.T) {
	home := newHome(t)
	s := open(t, home, "sprite", "exec", "box", "--", "sh", "-c", "trap 'echo caught; exit 42' INT; echo ready; while :; do sleep 0.05; done")
	s.wait("ready")
	s.type_("\x03")
	s.wait("caught")
	if code := s.end(); code != 42 {
		t.Errorf("exit code %d, want 42", code)
	}
	s = open(t, home, "sprite", "exec", "box", "--", "sh", "-c", "trap '' INT; echo ready; sleep 1000")
	s.wait("ready")
	// Signals that come at once may arrive as one: they are sent until there is nobody left to take them.
	for s.cmd.Process.Signal(os.Interrupt) == nil {
		time.Sleep(time.Millisecond)
	}
	if code := s.end(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// TestPanicPutsTheTerminalBack: what is deferred is done.
func TestPanicPutsTheTerminalBack(t *testing.T) {
	s := &screen{t: t}
	var err error
	if s.pty, s.tty, err = pty.Open(); err != nil {
		t.Fatal(err)
	}
	defer s.pty.Close()
	defer s.tty.Close()
	func() {
		defer func() { _ = recover() }()
		term, err := cli.TakeOver(s.tty, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer term.Restore()
		if !s.raw() {
			t.Error("the terminal is not raw")
		}
		panic("in the middle")
	}()
	if s.raw() {
		t.Error("the terminal is still raw")
	}
}
