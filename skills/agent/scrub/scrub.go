// Package scrub takes keys out of the files that an agent keeps about itself. Start with [Folder]. It overwrites keys in place and
// changes no file's size; copies that an agent makes elsewhere are not its business.
package scrub

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"time"

	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	timeout = 30 * time.Second
	piece   = 1 << 20 // bytes that are searched at once
)

var errTimeout = errors.New("searching the agent's files for keys takes too long")

// Folder overwrites secrets in all regular files below dir. It fails if that takes too long.
func Folder(root *workspace.Root, dir string, s *redact.Secrets) error {
	return scrubTree(root, dir, s, time.Now().Add(timeout))
}

func scrubTree(root *workspace.Root, dir string, s *redact.Secrets, until time.Time) (failed error) {
	entries, err := root.List(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case time.Now().After(until):
			return errors.Join(failed, errTimeout)
		case e.IsDir():
			err = scrubTree(root, name, s, until)
		case e.Type().IsRegular():
			err = scrubFile(root, name, s, until)
		default:
			err = nil
		}
		if errors.Is(err, errTimeout) {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// scrubFile overwrites secrets in place without changing the size of the file, so that files with an index stay valid. It reads the file in
// pieces that overlap by as much as a secret can be long.
func scrubFile(root *workspace.Root, name string, s *redact.Secrets, until time.Time) (err error) {
	f, err := root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var to *os.File                          // the same file, once there is something to overwrite
	buf := make([]byte, piece+3*s.Longest()) // JSON may escape each byte as six; Longest counts two, of the hexadecimal form
	for begin := int64(0); !time.Now().After(until); begin += piece {
		n, read := f.ReadAt(buf, begin)
		found := s.Find(buf[:n])
		if len(found) > 0 && to == nil {
			var restore func()
			to, restore, err = openWritable(root, name)
			defer restore()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, to.Close()) }()
		}
		for _, at := range found {
			if _, err := to.WriteAt(bytes.Repeat([]byte("*"), at.End-at.Begin), begin+int64(at.Begin)); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(read, io.EOF):
			return nil
		case read != nil:
			return read
		}
	}
	return errTimeout // a file without data can have any size
}

// openWritable opens a file for writing, also one that may only be read; restore gives it its mode back.
func openWritable(root *workspace.Root, name string) (f *os.File, restore func(), err error) {
	restore = func() {}
	info, err := root.Lstat(name)
	if err == nil && info.Mode().Perm()&0o200 == 0 {
		if err := root.Chmod(name, info.Mode().Perm()|0o200); err != nil {
			return nil, restore, err
		}
		restore = func() { _ = root.Chmod(name, info.Mode().Perm()) } // the key is gone whether or not this succeeds
	}
	f, err = root.OpenFile(name, os.O_WRONLY, 0)
	return f, restore, err
}
