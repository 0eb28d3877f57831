package native

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/ignore"
	"golang.org/x/sys/unix"
)

// worktree reads the files of a work tree. Everything goes through descriptors of folders that were opened without
// following links, so that a path of the tree is never anything but itself.
type worktree struct {
	fd int // the top
}

func openWorktree(dir string) (*worktree, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &worktree{fd}, nil
}

func (w *worktree) close() { unix.Close(w.fd) }

// stamp is a time as the index holds it.
type stamp struct{ sec, nano uint32 }

func stampOf(t time.Time) stamp { return stamp{uint32(t.Unix()), uint32(t.Nanosecond())} }

// isAbsent reports whether nothing is there, or something on the way is no folder.
func isAbsent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// folder opens a folder of the tree, element by element.
func (w *worktree) folder(dir string) (int, error) {
	fd, err := unix.Dup(w.fd)
	if err != nil {
		return -1, err
	}
	if dir == "" || dir == "." {
		return fd, nil
	}
	for part := range strings.SplitSeq(dir, "/") {
		next, err := openFolder(fd, part)
		unix.Close(fd)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		fd = next
	}
	return fd, nil
}

func openFolder(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// lstat describes a file of the tree.
func (w *worktree) lstat(name string) (*unix.Stat_t, error) {
	dir, base := path.Split(name)
	fd, err := w.folder(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return lstatAt(fd, base)
}

func lstatAt(fd int, base string) (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Fstatat(fd, base, st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	return st, nil
}

// open opens a regular file of the tree.
func (w *worktree) open(name string) (*os.File, error) {
	dir, base := path.Split(name)
	fd, err := w.folder(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	file, err := unix.Openat(fd, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(file), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", name), f.Close())
	}
	return f, nil
}

// small reads a file such as .gitignore; what is not there, no regular file or too large is nothing.
func (w *worktree) small(name string) []byte {
	f, err := w.open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, ignore.MaxFile+1))
	if err != nil || len(data) > ignore.MaxFile {
		return nil
	}
	return data
}

// link reads a symlink.
func (w *worktree) link(name string) ([]byte, error) {
	dir, base := path.Split(name)
	fd, err := w.folder(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 4097)
	n, err := unix.Readlinkat(fd, base, buf)
	if err != nil {
		return nil, &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return buf[:n], nil
}

// dirEntry is one entry of a folder: what readdir tells of its type.
type dirEntry struct {
	name string
	dir  bool // a real folder
	odd  bool // neither file, folder nor symlink: git does not see it
}

// list reads a folder, sorted.
func list(fd int) ([]dirEntry, error) {
	dup, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(dup), ".")
	defer d.Close()
	found, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]dirEntry, 0, len(found))
	for _, e := range found {
		t := e.Type()
		entries = append(entries, dirEntry{e.Name(), t.IsDir(), !t.IsDir() && !t.IsRegular() && t&os.ModeSymlink == 0})
	}
	slices.SortFunc(entries, func(a, b dirEntry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

// modeOf is the mode that git gives a file; previous is the one it has now, which decides where the disk cannot.
func modeOf(st *unix.Stat_t, fileMode bool, previous uint32) uint32 {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return objects.ModeSymlink
	case unix.S_IFDIR:
		return objects.ModeSubmodule
	case unix.S_IFREG:
	default:
		return 0
	}
	if !fileMode {
		if previous == objects.ModeFile || previous == objects.ModeExecutable {
			return previous
		}
		return objects.ModeFile
	}
	if st.Mode&0o100 != 0 {
		return objects.ModeExecutable
	}
	return objects.ModeFile
}

// statOf is what the index remembers of a file.
func statOf(st *unix.Stat_t) index.Stat {
	return index.Stat{
		CTime: uint32(st.Ctim.Sec), CTimeNano: uint32(st.Ctim.Nsec), MTime: uint32(st.Mtim.Sec), MTimeNano: uint32(st.Mtim.Nsec),
		Dev: uint32(st.Dev), Ino: uint32(st.Ino), UID: st.Uid, GID: st.Gid, Size: uint32(st.Size),
	}
}

// sameStat reports whether a file looks as it did. Parts of a second count only where both sides know them.
func sameStat(a, b index.Stat) bool {
	nano := func(x, y uint32) bool { return x == y || x == 0 || y == 0 }
	return a.MTime == b.MTime && nano(a.MTimeNano, b.MTimeNano) && a.CTime == b.CTime && nano(a.CTimeNano, b.CTimeNano) &&
		a.Size == b.Size && a.Ino == b.Ino && a.UID == b.UID && a.GID == b.GID
}

// racy reports whether a file may have changed after it was put into the index without that showing in its times.
func racy(s index.Stat, written stamp) bool {
	if written == (stamp{}) {
		return false
	}
	if s.MTimeNano == 0 || written.nano == 0 {
		return s.MTime >= written.sec
	}
	return s.MTime > written.sec || s.MTime == written.sec && s.MTimeNano >= written.nano
}

// hash computes the id that a file's content would have.
func (w *worktree) hash(name string, st *unix.Stat_t) (id, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err := w.link(name)
		if err != nil {
			return id{}, err
		}
		return plumbing.ComputeHash(objects.Blob, target), nil
	}
	f, err := w.open(name)
	if err != nil {
		return id{}, err
	}
	defer f.Close()
	h := plumbing.NewHasher(objects.Blob, st.Size)
	n, err := io.Copy(h, io.LimitReader(f, st.Size+1))
	if err == nil && n != st.Size {
		err = fmt.Errorf("read %s: %w", name, objects.ErrChanged)
	}
	return h.Sum(), err
}

// whole reads a file that must be looked through.
func (w *worktree) whole(name string, size int64) ([]byte, error) {
	if size > objects.MaxInMemory {
		return nil, fmt.Errorf("read %s: %w", name, objects.ErrTooLarge)
	}
	f, err := w.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, objects.MaxInMemory))
}
