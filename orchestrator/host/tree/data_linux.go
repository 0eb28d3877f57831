package tree

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// chunk is how much is copied between looks at the context.
const chunk = 64 << 20

const noAccessTime = unix.O_NOATIME

// privileged reports whether this process may give files to others and reach all: it is root, or the helper.
var privileged = sync.OnceValue(func() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // of 32 capabilities each
	err := unix.Capget(&header, &sets[0])
	return os.Geteuid() == 0 || err == nil && sets[0].Effective&(1<<unix.CAP_CHOWN) != 0
})

func makeFIFO(at int, name string) error { return unix.Mkfifoat(at, name, 0o600) }

// copyData fills the copy of a file of size bytes: shared with the original where the file system can, otherwise region by
// region, leaving out holes. A file that grows during the copy is cut at size; one that shrinks is copied to its end.
func (c *copier) copyData(from, to int, size int64) error {
	if size == 0 {
		return nil
	}
	if unix.IoctlFileClone(to, from) == nil {
		return nil
	}
	for off := int64(0); off < size; {
		start, err := unix.Seek(from, off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		end := size
		if err != nil {
			start = off // holes are not told here
		} else if end, err = unix.Seek(from, start, unix.SEEK_HOLE); err != nil {
			end = size
		}
		end = min(end, size)
		if start >= end {
			break
		}
		n, err := c.copyRegion(from, to, start, end-start)
		if err != nil {
			return err
		}
		if off = start + n; off < end {
			return unix.Ftruncate(to, off) // the source ends here by now
		}
	}
	return unix.Ftruncate(to, size)
}

// nextData returns where the next bytes of a file of size bytes lie that are not in a hole, from off on; size when none do,
// off where holes are not told.
func nextData(f *os.File, off, size int64) int64 {
	start, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return off
	}
	return min(start, size)
}

// copyRegion copies in the kernel, and by hand where it cannot.
func (c *copier) copyRegion(from, to int, off, size int64) (copied int64, err error) {
	for copied < size {
		if err := c.ctx.Err(); err != nil {
			return copied, err
		}
		in, out := off+copied, off+copied
		n, err := unix.CopyFileRange(from, &in, to, &out, int(min(size-copied, chunk)), 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EIO):
			return copied, err
		case err != nil || n == 0: // n is also 0 on file systems that only pretend
			rest, err := c.copyBytes(from, to, off+copied, size-copied)
			return copied + rest, err
		default:
			copied += int64(n)
		}
	}
	return copied, nil
}

// copyAttributes copies attributes as far as both sides have them, with those that mark an overlay's folders or without.
// They are a courtesy: a file system without them is no reason to refuse a checkpoint.
func copyAttributes(from, to int, marked bool) {
	list := make([]byte, 64<<10) // the kernel's limit for names, and for a value
	n, err := unix.Flistxattr(from, list)
	if err != nil || n == 0 {
		return
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if !isKept(name) || !marked && isMark(name) {
			continue
		}
		if n, err := unix.Fgetxattr(from, name, value); err == nil {
			_ = unix.Fsetxattr(to, name, value[:n], 0)
		}
	}
}

// openLocked opens an entry whose mode denies access to its own user: it changes the mode for a moment. A descriptor holds
// the entry during that time, so no other file can take its place.
func openLocked(at int, name string, flags int) (int, error) {
	held, err := openAt(at, name, unix.O_PATH, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(held)
	var st unix.Stat_t
	if err := unix.Fstat(held, &st); err != nil {
		return -1, err
	}
	kind := fileType(st)
	if kind != unix.S_IFDIR && kind != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		return -1, unix.EACCES
	}
	self := "/proc/self/fd/" + strconv.Itoa(held)
	if err := unix.Chmod(self, st.Mode&0o7777|0o700); err != nil {
		return -1, err
	}
	fd, err := unix.Open(self, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return fd, errors.Join(err, unix.Chmod(self, st.Mode&0o7777))
}

func setTimes(fd int, st unix.Stat_t) error {
	// By descriptor: an empty path does not do for utimensat before Linux 6.
	err := unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
	if err != nil {
		return fmt.Errorf("set times: %w", err)
	}
	return nil
}

// Sync returns when the tree at path is on stable storage. It syncs the whole file system that holds it: for a tree of many
// small files that is much faster than syncing each.
func Sync(path string) error {
	top, err := openRoot(path)
	if err != nil {
		return fmt.Errorf("sync tree: %w", err)
	}
	defer top.Close()
	if err := unix.Syncfs(top.fd()); err != nil {
		return fmt.Errorf("sync tree %s: %w", path, err)
	}
	return nil
}
