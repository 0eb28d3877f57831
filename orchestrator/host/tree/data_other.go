//go:build !linux

package tree

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const noAccessTime = 0 // there is no such flag

// privileged reports whether this process may give files to others and reach all.
func privileged() bool { return os.Geteuid() == 0 }

// makeFIFO has no form that works below a folder here; pipes are left out of copies.
func makeFIFO(int, string) error { return errors.ErrUnsupported }

// copyData fills the copy of a file of size bytes, or fewer if it shrinks during the copy.
func (c *copier) copyData(from, to int, size int64) error {
	_, err := c.copyBytes(from, to, 0, size)
	return err
}

// nextData would say where a hole ends; holes are not told here.
func nextData(_ *os.File, off, _ int64) int64 { return off }

// copyAttributes has no portable form; attributes are a courtesy.
func copyAttributes(int, int, bool) {}

// openLocked opens an entry whose mode shuts its own user out, by opening it up for a moment.
func openLocked(at int, name string, flags int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	kind := fileType(st)
	if kind != unix.S_IFDIR && kind != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		return -1, unix.EACCES
	}
	mode := uint32(st.Mode) & 0o7777
	if err := unix.Fchmodat(at, name, mode|0o700, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	fd, err := openAt(at, name, flags, 0)
	return fd, errors.Join(err, unix.Fchmodat(at, name, mode, unix.AT_SYMLINK_NOFOLLOW))
}

func setTimes(fd int, st unix.Stat_t) error {
	times := []unix.Timeval{unix.NsecToTimeval(st.Atim.Nano()), unix.NsecToTimeval(st.Mtim.Nano())}
	if err := unix.Futimes(fd, times); err != nil {
		return fmt.Errorf("set times: %w", err)
	}
	return nil
}

// Sync returns when the tree at path is on stable storage.
func Sync(path string) error {
	top, err := openRoot(path)
	if err != nil {
		return fmt.Errorf("sync tree: %w", err)
	}
	defer top.Close()
	if err := syncFolder(top); err != nil {
		return fmt.Errorf("sync tree %s: %w", path, err)
	}
	return nil
}

func syncFolder(f folder) error {
	err := f.eachName(func(name string) error {
		st, err := f.lstat(name)
		if err != nil {
			return err
		}
		switch fileType(st) {
		case unix.S_IFDIR:
			sub, err := openFolder(f.fd(), name)
			if err != nil {
				return err
			}
			defer sub.Close()
			return syncFolder(sub)
		case unix.S_IFREG:
			fd, err := openAt(f.fd(), name, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Fsync(fd)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.Sync()
}
