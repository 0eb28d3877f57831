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

// Runtime is the files of the runtime itself, in .lattice. Unlike the methods of Root, all its methods but Glance follow no
// symlink, neither of the file nor of .lattice: a link that was planted there would make the runtime write into a file of
// the user's.
type Runtime struct{ root *Root }

// Runtime returns the files of the runtime in this tree.
func (r *Root) Runtime() Runtime { return Runtime{r} }

// Open opens one of the files for reading and appending, and makes it where it is missing; made says so.
func (o Runtime) Open(name string) (f *os.File, made bool, err error) {
	const flags = os.O_RDWR | os.O_APPEND
	for range 16 { // it may come and go while we look
		info, err := o.lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = o.create(name, flags)
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
		if f, err = o.root.OpenFile(name, flags, 0); errors.Is(err, fs.ErrNotExist) {
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

// Glance describes one of the files with a single system call. It follows a symlink that was planted in place of
// .lattice. A result that is known to be the runtime's file, or that there is none, can be trusted; others must be checked.
func (o Runtime) Glance(name string) (fs.FileInfo, error) {
	return os.Lstat(o.root.baseOf(name) + "/" + name)
}

// List describes the regular files in one of the folders, the oldest first; none when it is not there.
func (o Runtime) List(dir string) ([]fs.FileInfo, error) {
	switch info, err := o.lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, newPlantedError(dir, kindOf(info.Mode()))
	}
	entries, err := o.root.List(dir)
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := o.root.rootOf(dir).Lstat(dir + "/" + e.Name()); err == nil && info.Mode().IsRegular() { // else it went away, or was planted
			files = append(files, info)
		}
	}
	slices.SortStableFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return files, nil
}

func (o Runtime) lstat(name string) (fs.FileInfo, error) {
	dir, err := o.root.rootOf(protocol.Dir).Lstat(protocol.Dir)
	switch {
	case err != nil:
		return nil, err
	case dir.Mode()&fs.ModeSymlink != 0:
		return nil, newPlantedError(protocol.Dir, "a symlink")
	}
	info, err := o.root.rootOf(name).Lstat(name)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, inTheWay(name)
	}
	return info, o.root.explainError(err)
}

func (o Runtime) create(name string, flags int) (*os.File, error) {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if err := o.makeDir(name[:i]); err != nil {
			return nil, err
		}
	}
	return o.root.OpenFile(name, flags|os.O_CREATE|os.O_EXCL, 0o644)
}

func inTheWay(name string) error {
	return newPlantedError("what lies in the way of "+name, "no folder")
}

// makeDir makes a folder. An error names any other file there, because it was planted.
func (o Runtime) makeDir(name string) error {
	err := o.root.MkdirAll(name)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
		return inTheWay(name)
	}
	if err != nil {
		return err
	}
	for dir := name; ; dir = dir[:strings.LastIndexByte(dir, '/')] {
		info, err := o.root.rootOf(dir).Lstat(dir)
		if err != nil {
			return o.root.explainError(err)
		}
		if !info.IsDir() {
			return newPlantedError(dir, kindOf(info.Mode()))
		}
		if !strings.Contains(dir, "/") {
			return nil
		}
	}
}
