package fileapi

import (
	"io"
	"os"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

const (
	// held is the size of a file that is read at once, so that the sprite is not held for it.
	held = 1 << 20
	// readPiece is how much of a file is read at once.
	readPiece = 256 << 10
)

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

// takeBack leaves the sprite's file and goes on from a copy of the rest. The copy has the file's holes: it takes no more of the
// disk than the file, however long a sprite says that is.
func (l *lent) takeBack() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	copied, err := wire.CreateNameless(l.dir)
	if err == nil {
		err = l.copyRest(copied)
	}
	l.file.Close()
	l.file, l.base = copied, l.at
	return err
}

// copyRest copies what the client has not read. A file that has become shorter is copied as far as it goes. mu is held.
func (l *lent) copyRest(to *os.File) error {
	st, err := l.file.Stat()
	if err != nil {
		return err
	}
	from, size := l.at-l.base, min(l.end-l.base, st.Size())
	for at := from; at < size; {
		start, end := files.NextExtent(l.file, at, size)
		if _, err := to.Seek(start-from, io.SeekStart); err != nil {
			return err
		}
		n, err := io.Copy(to, io.NewSectionReader(l.file, start, end-start))
		if err != nil {
			return err
		}
		if at = end; n < end-start {
			return nil
		}
	}
	return to.Truncate(max(size-from, 0))
}

func (l *lent) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
}
