package fileapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

const (
	// held is how much of an answer is kept in memory; the rest goes to a file that has no name.
	held = 1 << 20
	// readPiece is how much of a file is read at once.
	readPiece = 256 << 10
)

// spool keeps an answer for a slow client, so that the sprite is not held.
type spool struct {
	dir    string // for the file
	memory bytes.Buffer
	file   *os.File
	size   int64
}

// createNameless makes a file that is gone when it is closed.
func createNameless(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "spool-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *spool) Write(p []byte) (n int, err error) {
	if s.file == nil && s.memory.Len()+len(p) > held {
		if s.file, err = createNameless(s.dir); err != nil {
			return 0, err
		}
	}
	if s.file != nil {
		n, err = s.file.Write(p)
	} else {
		n, err = s.memory.Write(p)
	}
	s.size += int64(n)
	return n, err
}

func (s *spool) openReader() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.memory.Bytes())
	}
	return io.MultiReader(bytes.NewReader(s.memory.Bytes()), io.NewSectionReader(s.file, 0, s.size-int64(s.memory.Len())))
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// sendAnswer sends the kept answer as JSON.
func (s *spool) sendAnswer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(s.size, 10))
	if _, err := io.Copy(w, s.openReader()); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// lent is a file of a sprite from which a client is served. It can be taken back: the rest that the client has not read is then
// copied to a file of the host's, and the client never notices.
type lent struct {
	dir string // for the copy

	mu   boltfile.Lock // guards the fields below
	file *os.File
	base int64 // offset in the answer at which the file begins
	at   int64
	end  int64
}

// Read implements [io.Reader]. It does not hold up takeBack: the lock is not held while a client is waited for.
func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return 0, os.ErrClosed
	}
	if l.at >= l.end {
		return 0, io.EOF
	}
	n, err := l.file.ReadAt(p[:min(int64(len(p)), l.end-l.at)], l.at-l.base)
	l.at += int64(n)
	if n > 0 {
		err = nil
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF // it has become shorter since its length was told
	}
	return n, err
}

// takeBack leaves the sprite's file and goes on from a copy of the rest.
func (l *lent) takeBack() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	copied, err := createNameless(l.dir)
	if err == nil {
		_, err = io.Copy(copied, io.NewSectionReader(l.file, l.at-l.base, l.end-l.at))
	}
	l.file.Close()
	l.file, l.base = copied, l.at
	return err
}

func (l *lent) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
}
