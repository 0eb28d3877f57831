package reconcile

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// spool keeps bytes in the order in which they come: up to limit in memory, then all in a temporary file.
type spool struct {
	tmp   string // folder of the file
	limit int

	size   int64
	memory []byte
	file   *os.File
	out    *bufio.Writer

	window   []byte // of the file, last read
	windowAt int64
}

// add appends b and returns its place.
func (s *spool) add(b []byte) (at int64, err error) {
	at = s.size
	if s.file == nil && len(s.memory)+len(b) > s.limit {
		if err := s.spillToFile(); err != nil {
			return 0, err
		}
	}
	if s.file == nil {
		s.memory = append(s.memory, b...)
	} else if _, err := s.out.Write(b); err != nil {
		return 0, s.fileError("write", err)
	}
	s.size += int64(len(b))
	return at, nil
}

// spillToFile moves on from memory to a file.
func (s *spool) spillToFile() error {
	f, err := os.CreateTemp(s.tmp, "lattice-reconcile-")
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	s.file, s.out = f, bufio.NewWriterSize(f, 64<<10)
	if err := os.Remove(f.Name()); err != nil { // the open file stays until it is closed, by us or by our end
		return fmt.Errorf("hide a temporary file: %w", err)
	}
	if _, err := s.out.Write(s.memory); err != nil {
		return s.fileError("write", err)
	}
	s.memory = nil
	return nil
}

func (s *spool) fileError(what string, err error) error {
	return fmt.Errorf("%s a temporary file (TMPDIR says where they go): %w", what, err)
}

// openReader reads the added entries. None is added after the call.
func (s *spool) openReader() (io.ReaderAt, error) {
	if s.out != nil {
		if err := s.out.Flush(); err != nil {
			return nil, s.fileError("write", err)
		}
		s.out = nil
	}
	return s.file, nil
}

// read returns the n bytes at a place, valid until the next call. Reading in order is fast.
func (s *spool) read(at int64, n int) ([]byte, error) {
	if s.file == nil {
		return s.memory[at : at+int64(n)], nil
	}
	end := s.windowAt + int64(len(s.window))
	if s.windowAt <= at && at+int64(n) <= end {
		return s.window[at-s.windowAt:][:n], nil
	}
	file, err := s.openReader()
	if err != nil {
		return nil, err
	}
	ahead := n
	if s.windowAt <= at && at <= end { // in order: the next ones will be wanted as well
		ahead = int(min(max(int64(n), 256<<10), s.size-at))
	}
	if cap(s.window) < ahead {
		s.window = make([]byte, ahead)
	}
	s.window, s.windowAt = s.window[:ahead], at
	if _, err := file.ReadAt(s.window, at); err != nil {
		s.window = nil
		return nil, s.fileError("read", err)
	}
	return s.window[:n], nil
}

func (s *spool) close() error {
	s.memory, s.window, s.out = nil, nil, nil
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
