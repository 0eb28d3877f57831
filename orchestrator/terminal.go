package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// spoken is w for what a sprite says of its own accord: a terminal gets no control characters of it.
func spoken(w io.Writer) io.Writer {
	if isTerminal(w) {
		return sanitizer{w}
	}
	return w
}

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminal is this process's terminal while a sprite's is shown in it.
type terminal struct {
	size    sprites.Size
	resizes chan sprites.Size
	restore func() // puts it back as it was; may be called again
}

// takeOver hands every key to the reader of in and reports sizes, the present one first. The caller defers restore, so
// that a panic puts the terminal back, too.
func takeOver(in *os.File, warn io.Writer) (*terminal, error) {
	fd := int(in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("set terminal to raw: %w", err)
	}
	t := &terminal{resizes: make(chan sprites.Size, 1)}
	changed, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(changed, syscall.SIGWINCH)
	var watch sync.WaitGroup
	t.restore = sync.OnceFunc(func() {
		signal.Stop(changed)
		close(done)
		watch.Wait()
		if err := term.Restore(fd, before); err != nil {
			fmt.Fprintf(warn, "\r\nlattice: the terminal cannot be put back: %v; type: reset\r\n", err)
		}
	})
	if cols, rows, err := term.GetSize(fd); err == nil {
		t.size = sprites.Size{Rows: rows, Cols: cols}
		t.resizes <- t.size
	}
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-changed:
			}
			cols, rows, err := term.GetSize(fd)
			if err != nil {
				continue
			}
			select {
			case <-t.resizes: // a size that nobody took is out of date
			default:
			}
			select {
			case t.resizes <- sprites.Size{Rows: rows, Cols: cols}:
			case <-done:
				return
			}
		}
	})
	return t, nil
}

// escapes reads what a person types and looks for the escape character at the beginning of a line, as ssh does.
type escapes struct {
	in     io.Reader
	char   byte
	help   io.Writer
	detach func()

	inside  bool   // of a line
	pending bool   // the character was typed and waits for its follower
	over    bool   // detached
	rest    []byte // typed, not yet read
}

func (e *escapes) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.over {
			return 0, io.EOF
		}
		buf := make([]byte, len(p))
		n, err := e.in.Read(buf)
		for _, b := range buf[:n] {
			e.take(b)
		}
		if err != nil && len(e.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// take passes one typed byte on, or keeps it for itself.
func (e *escapes) take(b byte) {
	switch {
	case e.over:
		return
	case e.pending:
		e.pending = false
		switch b {
		case '.':
			e.over = true
			e.detach()
			return
		case '?':
			fmt.Fprintf(e.help, "\r\n  %c.  detach, the command goes on\r\n  %c%c  type the character itself\r\n  %c?  this text\r\n", e.char, e.char, e.char, e.char)
			return
		case e.char:
		default:
			e.rest = append(e.rest, e.char)
		}
	case !e.inside && b == e.char:
		e.pending = true
		return
	}
	e.rest = append(e.rest, b)
	e.inside = b != '\r' && b != '\n'
}

// forwarded are the signals of this process on their way to a command.
type forwarded struct {
	names <-chan string
	stop  func() // ends the forwarding; the signals have their old meaning again
}

// patience is how many signals a command may ignore.
const patience = 3

// forwardSignals sends interrupts, terminations and hangups to a command. giveUp is called when it ignores them; and a
// while after a hangup or termination when it has a terminal, because nobody is there to see it any more.
func forwardSignals(tty bool, giveUp func()) forwarded {
	known := map[os.Signal]string{os.Interrupt: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"}
	came, names, done := make(chan os.Signal, patience), make(chan string, patience), make(chan struct{})
	for s := range known {
		signal.Notify(came, s)
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case s := <-came:
				if n >= patience {
					giveUp()
					return
				}
				names <- known[s]
				if tty && s != os.Interrupt {
					timer := time.AfterFunc(giveUpAfter, giveUp)
					defer timer.Stop()
				}
			}
		}
	})
	return forwarded{names: names, stop: sync.OnceFunc(func() {
		signal.Stop(came)
		close(done)
		watch.Wait()
	})}
}
