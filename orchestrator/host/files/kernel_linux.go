package files

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kernel is the tree that this process sees. It is meant for a sandbox's init, which receives names that hostile processes
// chose: it does not follow magic links of /proc to a file, because they lead to files that init itself has open, such as its
// own executable.
type Kernel struct{}

// maxLinks bounds the links on the way to a file, as the kernel does.
const maxLinks = 40

// maxTries bounds how often an open is tried that the kernel bids us try again: a lease can be held for most of a minute.
const maxTries = 100

// Open implements Tree.
func (Kernel) Open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flag) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if flag&os.O_CREATE != 0 {
		how.Mode = uint64(perm.Perm())
	}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN) && try < maxTries: // a rename came between, or a process holds a lease on the file
		default:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// withHeldName calls do with a name for the file that name leads to; the new name keeps leading to the same file.
func (k Kernel) withHeldName(name string, do func(held string) error) error {
	f, err := k.Open(name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return do("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}

// Stat implements Tree.
func (k Kernel) Stat(name string) (fs.FileInfo, error) {
	f, err := k.Open(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// Lstat implements Tree.
func (Kernel) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// Real implements Tree.
func (k Kernel) Real(name string) (string, error) { return k.realPath(name, 0) }

func (k Kernel) realPath(name string, links int) (real string, err error) {
	err = k.withHeldName(name, func(held string) error {
		real, err = nameOf(held)
		return err
	})
	if err == nil || !errors.Is(err, fs.ErrNotExist) || name == "/" {
		return real, err
	}
	dir, err := k.realPath(path.Dir(name), links)
	if err != nil {
		return "", err
	}
	name = path.Join(dir, path.Base(name))
	target, err := os.Readlink(name)
	if err != nil {
		return name, nil // there is no link: it may be made
	}
	if links++; links > maxLinks {
		return "", syscall.ELOOP
	}
	if !path.IsAbs(target) {
		target = path.Join(dir, target)
	}
	return k.realPath(path.Clean(target), links)
}

// nameOf is the name of a held file. A file that has been unlinked may still be seen, mounted over another.
func nameOf(held string) (string, error) {
	name, err := os.Readlink(held)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(held)
	if err != nil {
		return "", err
	}
	for _, n := range []string{name, strings.TrimSuffix(name, " (deleted)")} {
		if there, err := os.Lstat(n); err == nil && os.SameFile(there, st) {
			return n, nil
		}
	}
	return "", syscall.ENOENT // it was removed since
}

// Readlink implements Tree.
func (Kernel) Readlink(name string) (string, error) { return os.Readlink(name) }

// Mkdir implements Tree.
func (Kernel) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }

// Mkfifo implements Tree.
func (Kernel) Mkfifo(name string, perm fs.FileMode) error { return unix.Mkfifo(name, uint32(perm)) }

// Symlink implements Tree.
func (Kernel) Symlink(target, name string) error { return os.Symlink(target, name) }

// Rename implements Tree. It is the system call's, which os.Rename is not quite.
func (Kernel) Rename(from, to string) error { return unix.Rename(from, to) }

// Remove implements Tree.
func (Kernel) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements Tree.
func (Kernel) RemoveAll(name string) error { return os.RemoveAll(name) }

// Writable implements Tree.
func (Kernel) Writable(name string) error { return unix.Access(name, unix.W_OK) }

// Chmod implements Tree.
func (k Kernel) Chmod(name string, mode fs.FileMode) error {
	return k.withHeldName(name, func(held string) error { return os.Chmod(held, mode) })
}

// Lchown implements Tree. A link as the last part of the name is meant itself.
func (Kernel) Lchown(name string, uid, gid int) error { return os.Lchown(name, uid, gid) }

// Chtimes implements Tree.
func (k Kernel) Chtimes(name string, mtime time.Time) error {
	return k.withHeldName(name, func(held string) error { return os.Chtimes(held, time.Time{}, mtime) })
}

// User implements Tree.
func (k Kernel) User(name string) (int, error) { return lookUp(k, "/etc/passwd", name) }

// Group implements Tree.
func (k Kernel) Group(name string) (int, error) { return lookUp(k, "/etc/group", name) }

// maxAccounts bounds the bytes read of an account file.
const maxAccounts = 1 << 20

// lookUp finds a name's number in a file of accounts. The system's own look-up would load libraries that the sprite's image names.
func lookUp(t Tree, file, name string) (int, error) {
	f, st, err := OpenRegular(t, file)
	if err != nil {
		return 0, syscall.EINVAL
	}
	defer f.Close()
	if st.Size() > maxAccounts {
		return 0, syscall.EINVAL
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 || fields[0] != name {
			continue
		}
		if n, err := strconv.ParseUint(fields[2], 10, 31); err == nil {
			return int(n), nil
		}
	}
	return 0, syscall.EINVAL
}
