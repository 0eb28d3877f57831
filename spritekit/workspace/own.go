package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// ErrPlanted is wrapped together with ErrUnsafe if a file of another kind replaces one of the runtime's own files.
var ErrPlanted = errors.New("not the runtime's own")

func newPlantedError(name, what string) error {
	return fmt.Errorf("%w: %s is %s and %w", ErrUnsafe, name, what, ErrPlanted)
}

// isOwn reports whether a clean path is the runtime's: .lattice or below.
func isOwn(rel string) bool { return rel == protocol.Dir || strings.HasPrefix(rel, protocol.Dir+"/") }

// OpenOwn opens one of the runtime's own files, below .lattice, for reading and appending, and makes it where it is
// missing; made says so. Unlike OpenFile it follows no symlink at all, neither of the file nor of .lattice: a link
// that was planted there would make the runtime write into a file of the user's.
func (r *Root) OpenOwn(name string) (f *os.File, made bool, err error) {
	const flags = os.O_RDWR | os.O_APPEND
	for range 16 { // it may come and go while we look
		info, err := r.lstatOwn(name)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = r.createOwn(name, flags)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return f, err == nil, err
		}
		if err != nil {
			return nil, false, err
		}
		if !info.Mode().IsRegular() {
			return nil, false, newPlantedError(name, kindOf(info.Mode()))
		}
		if f, err = r.OpenFile(name, flags, 0); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, false, err
		}
		now, err := f.Stat()
		if err == nil && os.SameFile(info, now) {
			return f, false, nil
		}
		f.Close()
	}
	return nil, false, fmt.Errorf("%w: %s changes all the time", ErrUnsafe, name)
}

func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "a file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symlink"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}

// StillNamed describes f and reports whether name still refers to it: it may have been removed, renamed or
// replaced since it was opened.
func (r *Root) StillNamed(f *os.File, name string) (info fs.FileInfo, still bool, err error) {
	info, err = f.Stat()
	if err != nil {
		return nil, false, err
	}
	there, err := r.rootOf(name).Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return info, false, nil
	}
	return info, err == nil && os.SameFile(info, there), r.explainError(err)
}

// Glance describes one of the runtime's own files with a single system call. It follows a symlink that was planted in place of
// .lattice. A result that is known to be the runtime's file, or that there is none, can be trusted; others must be checked.
func (r *Root) Glance(name string) (fs.FileInfo, error) {
	return os.Lstat(r.baseOf(name) + "/" + name)
}

// OwnFiles describes the regular files in one of the runtime's own folders, the oldest first; none when it is not there.
func (r *Root) OwnFiles(dir string) ([]fs.FileInfo, error) {
	switch info, err := r.lstatOwn(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, newPlantedError(dir, kindOf(info.Mode()))
	}
	entries, err := r.List(dir)
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := r.rootOf(dir).Lstat(dir + "/" + e.Name()); err == nil && info.Mode().IsRegular() { // else it went away, or was planted
			files = append(files, info)
		}
	}
	slices.SortStableFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return files, nil
}

func (r *Root) lstatOwn(name string) (fs.FileInfo, error) {
	dir, err := r.rootOf(protocol.Dir).Lstat(protocol.Dir)
	switch {
	case err != nil:
		return nil, err
	case dir.Mode()&fs.ModeSymlink != 0:
		return nil, newPlantedError(protocol.Dir, "a symlink")
	}
	info, err := r.rootOf(name).Lstat(name)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, inTheWay(name)
	}
	return info, r.explainError(err)
}

func (r *Root) createOwn(name string, flags int) (*os.File, error) {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if err := r.ownDir(name[:i]); err != nil {
			return nil, err
		}
	}
	return r.OpenFile(name, flags|os.O_CREATE|os.O_EXCL, 0o644)
}

func inTheWay(name string) error {
	return newPlantedError("what lies in the way of "+name, "no folder")
}

// ownDir makes a folder of the runtime's. An error names any other file there, because it was planted.
func (r *Root) ownDir(name string) error {
	err := r.MkdirAll(name)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return inTheWay(name)
	}
	if err != nil {
		return err
	}
	for dir := name; ; dir = dir[:strings.LastIndexByte(dir, '/')] {
		info, err := r.rootOf(dir).Lstat(dir)
		if err != nil {
			return r.explainError(err)
		}
		if !info.IsDir() {
			return newPlantedError(dir, kindOf(info.Mode()))
		}
		if !strings.Contains(dir, "/") {
			return nil
		}
	}
}
