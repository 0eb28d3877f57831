package objects

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
)

func loosePath(dir string, id ID) string {
	name := id.String()
	return filepath.Join(dir, name[:2], name[2:])
}

// looseReader is an open loose object.
type looseReader struct {
	*objfile.Reader
	f    *os.File
	typ  Type
	size int64
}

func (r *looseReader) Close() error { return errors.Join(r.Reader.Close(), r.f.Close()) }

// all reads the content and nothing behind it.
func (r *looseReader) all() ([]byte, error) {
	if r.size > MaxInMemory {
		return nil, ErrTooLarge
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, r.size+1))
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err)
	}
	if n != r.size {
		return nil, ErrCorrupt
	}
	return b.Bytes(), nil
}

// loose opens a loose object, or one that waits for Flush.
func (s *Store) loose(id ID) (*looseReader, error) {
	names := make([]string, 0, len(s.dirs)+1)
	if name, ok := s.pending[id]; ok {
		names = append(names, name)
	}
	for _, dir := range s.dirs {
		names = append(names, loosePath(dir, id))
	}
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r, err := newLooseReader(f)
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", id, err)
		}
		return r, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
}

func newLooseReader(f *os.File) (*looseReader, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrHostile
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := objfile.NewReader(f)
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err, f.Close())
	}
	typ, size, err := r.Header()
	if err == nil && size < 0 {
		err = objfile.ErrNegativeSize
	}
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err, r.Close(), f.Close())
	}
	return &looseReader{Reader: r, f: f, typ: typ, size: size}, nil
}

// Content streams an object's content; deltas are put together in memory. The caller closes it.
func (s *Store) Content(id ID) (Type, int64, io.ReadCloser, error) {
	p, offset, err := s.packed(id)
	if err != nil {
		return 0, 0, nil, err
	}
	if p != nil {
		return s.stream(p, offset)
	}
	r, err := s.loose(id)
	if err != nil {
		return 0, 0, nil, err
	}
	return r.typ, r.size, exactly{r, &io.LimitedReader{R: r, N: r.size}}, nil
}

// exactly ends with an error where the content is shorter than announced.
type exactly struct {
	io.Closer
	r *io.LimitedReader
}

func (e exactly) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err == io.EOF && e.r.N > 0 {
		err = ErrCorrupt
	}
	return n, err
}

// Write adds an object.
func (s *Store) Write(typ Type, data []byte) (ID, error) {
	id := plumbing.ComputeHash(typ, data)
	if has, err := s.Has(id); has || err != nil {
		return id, err
	}
	written, err := s.WriteFrom(typ, int64(len(data)), bytes.NewReader(data))
	if err == nil && written != id {
		err = fmt.Errorf("write object %s: it came out as %s", id, written)
	}
	return id, err
}

// ErrChanged says that what was read had another size than announced: somebody is writing it.
var ErrChanged = errors.New("the content changed while it was read")

// WriteFrom adds an object of this size; its content need not fit into memory.
func (s *Store) WriteFrom(typ Type, size int64, content io.Reader) (id ID, err error) {
	if err := os.MkdirAll(s.dirs[0], 0o777); err != nil {
		return id, err
	}
	f, err := os.CreateTemp(s.dirs[0], "tmp_obj_")
	if err != nil {
		return id, fmt.Errorf("write object: %w", err)
	}
	w := objfile.NewWriter(f)
	if err = w.WriteHeader(typ, size); err == nil {
		var n int64
		if n, err = io.Copy(w, io.LimitReader(content, size)); err == nil && n < size {
			err = ErrChanged
		} else if err == nil {
			var more [1]byte
			if extra, _ := io.ReadFull(content, more[:]); extra > 0 {
				err = ErrChanged
			}
		}
	}
	err = errors.Join(err, w.Close())
	if err == nil {
		id = w.Hash()
		err = f.Chmod(0o444)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return ID{}, errors.Join(fmt.Errorf("write object: %w", err), os.Remove(f.Name()))
	}
	has, err := s.Has(id)
	if has || err != nil {
		return id, errors.Join(err, os.Remove(f.Name()))
	}
	s.pending[id] = f.Name()
	return id, nil
}

// Flush makes everything written durable and then visible under its name. It comes before anything that refers to it.
func (s *Store) Flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	if err := s.syncPending(); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	folders := map[string]bool{}
	for id, name := range maps.Clone(s.pending) {
		final := loosePath(s.dirs[0], id)
		folder := filepath.Dir(final)
		if !folders[folder] {
			if err := os.Mkdir(folder, 0o777); err == nil {
				folders[s.dirs[0]] = true
			} else if !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("write objects: %w", err)
			}
			folders[folder] = true
		}
		if err := os.Rename(name, final); err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
		delete(s.pending, id)
	}
	for folder := range folders {
		if err := syncDir(folder); err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
	}
	return nil
}

// manyFiles is from where on one flush of the file system costs less than one of each file.
const manyFiles = 32

func (s *Store) syncPending() error {
	if canSyncFileSystem && len(s.pending) > manyFiles {
		return syncFileSystem(s.dirs[0])
	}
	for _, name := range s.pending {
		if err := syncFile(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) discard() error {
	var err error
	for id, name := range s.pending {
		err = errors.Join(err, os.Remove(name))
		delete(s.pending, id)
	}
	return err
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func syncDir(name string) error { return syncFile(name) }
