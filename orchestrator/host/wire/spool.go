package wire

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
)

const (
	// spoolMemory is how many bytes of an answer are kept in memory; the rest goes to a file without a name.
	spoolMemory = 1 << 20
	// maxSpool bounds an answer, in bytes: a sprite chooses the number and the names of its files.
	maxSpool = 1 << 30
)

// ErrLongAnswer refuses an answer that is longer than a [Spool] takes.
var ErrLongAnswer = Refuse(http.StatusRequestEntityTooLarge, "too_large", "the answer is too long; ask for parts of it")

// Spool buffers an answer, so that a slow client does not hold the sprite. The caller closes it.
type Spool struct {
	Dir  string // for the file
	Most int64  // the limit in bytes; 0 stands for maxSpool

	memory bytes.Buffer
	file   *os.File
	size   int64
}

// CreateNameless makes a file that is removed when it is closed.
func CreateNameless(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "spool-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Write implements [io.Writer].
func (s *Spool) Write(p []byte) (n int, err error) {
	if s.size+int64(len(p)) > cmp.Or(s.Most, maxSpool) {
		return 0, ErrLongAnswer
	}
	if s.file == nil && s.memory.Len()+len(p) > spoolMemory {
		if s.file, err = CreateNameless(s.Dir); err != nil {
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

func (s *Spool) openReader() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.memory.Bytes())
	}
	return io.MultiReader(bytes.NewReader(s.memory.Bytes()), io.NewSectionReader(s.file, 0, s.size-int64(s.memory.Len())))
}

// Close discards the answer.
func (s *Spool) Close() {
	if s.file != nil {
		s.file.Close()
	}
}

// Send answers with the kept bytes, which are of a content type.
func (s *Spool) Send(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.FormatInt(s.size, 10))
	if _, err := io.Copy(w, s.openReader()); err != nil {
		panic(http.ErrAbortHandler) // the client must see that the answer is cut off
	}
}
