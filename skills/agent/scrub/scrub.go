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
			err = scrubFile(root, name, s)
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

// scrubFile overwrites secrets in place without changing the size of the file, so that files with an index stay valid.
func scrubFile(root *workspace.Root, name string, s *redact.Secrets) error {
	f, err := root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	found, err := findSecrets(f, s)
	if err := errors.Join(err, f.Close()); err != nil || len(found) == 0 {
		return err
	}
	info, err := root.Lstat(name)
	if err == nil && info.Mode().Perm()&0o200 == 0 {
		if err := root.Chmod(name, info.Mode().Perm()|0o200); err != nil {
			return err
		}
		defer func() { _ = root.Chmod(name, info.Mode().Perm()) }() // the key is gone whether or not this succeeds
	}
	if f, err = root.OpenFile(name, os.O_WRONLY, 0); err != nil {
		return err
	}
	for _, at := range found {
		if _, err = f.WriteAt(bytes.Repeat([]byte("*"), at.End-at.Begin), int64(at.Begin)); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// findSecrets returns the places of all secrets in f. A secret across two pieces may be listed twice.
func findSecrets(f io.ReaderAt, s *redact.Secrets) (found []redact.Span, err error) {
	buf := make([]byte, piece+3*s.Longest()) // JSON may escape each byte as six; Longest counts two, of the hexadecimal form
	for begin := 0; ; begin += piece {
		n, err := f.ReadAt(buf, int64(begin))
		for _, at := range s.Find(buf[:n]) {
			found = append(found, redact.Span{Begin: begin + at.Begin, End: begin + at.End})
		}
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return found, err
		}
	}
}
