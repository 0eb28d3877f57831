package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// SanitizeTerminal returns a writer to w for text of a sprite, without control characters if w is a terminal.
func SanitizeTerminal(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return Sanitize(w)
	}
	return w
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Terminal is this process's terminal while a sprite's is shown in it.
type Terminal struct {
	Size    sprites.Size
	Resizes chan sprites.Size
	Restore func() // puts it back as it was; may be called again
}

// TakeOver hands every key to the reader of in and reports sizes, the present one first. The caller defers restore, so
// that a panic puts the terminal back, too.
func TakeOver(in *os.File, warn io.Writer) (*Terminal, error) {
	fd := int(in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("set terminal to raw: %w", err)
	}
	t := &Terminal{Resizes: make(chan sprites.Size, 1)}
	changed, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(changed, syscall.SIGWINCH)
	var watch sync.WaitGroup
	t.Restore = sync.OnceFunc(func() {
		signal.Stop(changed)
		close(done)
		watch.Wait()
		if err := term.Restore(fd, before); err != nil {
			fmt.Fprintf(warn, "\r\nlattice: the terminal cannot be reset: %v; type: reset\r\n", err)
		}
	})
	if cols, rows, err := term.GetSize(fd); err == nil {
		t.Size = sprites.Size{Rows: rows, Cols: cols}
		t.Resizes <- t.Size
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
			case <-t.Resizes: // a size that was not read is out of date
			default:
			}
			select {
			case t.Resizes <- sprites.Size{Rows: rows, Cols: cols}:
			case <-done:
				return
			}
		}
	})
	return t, nil
}

// EscapeReader reads the keys of a person and looks for the escape character at the beginning of a line, as ssh does.
type EscapeReader struct {
	In     io.Reader
	Char   byte
	Help   io.Writer
	Detach func()

	inside  bool   // of a line
	pending bool   // the character was typed and waits for its follower
	over    bool   // detached
	rest    []byte // typed, not yet read
}

func (e *EscapeReader) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.over {
			return 0, io.EOF
		}
		buf := make([]byte, len(p))
		n, err := e.In.Read(buf)
		for _, b := range buf[:n] {
			e.takeByte(b)
		}
		if err != nil && len(e.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// takeByte passes one typed byte on, or keeps it for itself.
func (e *EscapeReader) takeByte(b byte) {
	switch {
	case e.over:
		return
	case e.pending:
		e.pending = false
		switch b {
		case '.':
			e.over = true
			e.Detach()
			return
		case '?':
			fmt.Fprintf(e.Help, "\r\n  %c.  detach; the command keeps running\r\n  %c%c  type the character itself\r\n  %c?  this text\r\n", e.Char, e.Char, e.Char, e.Char)
			return
		case e.Char:
		default:
			e.rest = append(e.rest, e.Char)
		}
	case !e.inside && b == e.Char:
		e.pending = true
		return
	}
	e.rest = append(e.rest, b)
	e.inside = b != '\r' && b != '\n'
}
