// Package tree copies, removes, syncs and chowns the file trees that sprites live in and checkpoints are made of.
//
// Start with Copy. A hostile program in a sprite may change its tree while the host works on it: it swaps a folder for a
// link to the host's files, or puts a pipe in a file's place. So nothing here walks a path inside a tree. Every entry is
// opened relative to the descriptor of its folder, without following links, and judged by the status of its own
// descriptor. Paths given to the functions are the host's own and must have no hostile folder on the way.
package tree

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxDepth bounds the folders held open while copying; no honest tree comes near.
const maxDepth = 1000

// batch is how many names of a folder are read at a time.
const batch = 1024

// folder is an open folder. It is used through its descriptor only.
type folder struct {
	*os.File
	shut *uint32 // mode to set again, of a folder that shut its own user out and was opened up for the work in it
}

func (f folder) fd() int { return int(f.Fd()) }

// Close undoes openFolder.
func (f folder) Close() error {
	if f.shut != nil {
		return errors.Join(unix.Fchmod(f.fd(), *f.shut), f.File.Close())
	}
	return f.File.Close()
}

// openRoot opens the top of a tree.
func openRoot(path string) (folder, error) {
	return openFolder(unix.AT_FDCWD, path)
}

// openFolder opens the folder name of the folder at. A link or anything else that is no folder is ENOTDIR or ELOOP.
func openFolder(at int, name string) (folder, error) {
	fd, err := openAt(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = openLocked(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return folder{}, &os.PathError{Op: "open folder", Path: name, Err: err}
	}
	f := folder{File: os.NewFile(uintptr(fd), name)}
	if err := f.makeReachable(); err != nil {
		f.Close()
		return folder{}, &os.PathError{Op: "open folder", Path: name, Err: err}
	}
	return f, nil
}

// makeReachable makes sure that an ordinary user can reach the entries of its own folder. Root and the helper always can.
func (f *folder) makeReachable() error {
	if privileged() {
		return nil
	}
	st, err := f.stat()
	if err != nil {
		return err
	}
	mode := uint32(st.Mode) & 0o7777
	if mode&0o500 == 0o500 || int(st.Uid) != os.Geteuid() {
		return nil
	}
	if err := unix.Fchmod(f.fd(), mode|0o500); err != nil {
		return err
	}
	f.shut = &mode
	return nil
}

// openAt never follows a link at the end, never waits for the other end of a pipe, and is retried after an interrupt. Where the
// system can, it does not update the access time of files that are only read: that would write to the whole tree.
func openAt(at int, name string, flags int, mode uint32) (fd int, err error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	if flags&(unix.O_WRONLY|unix.O_RDWR) == 0 {
		flags |= noAccessTime
	}
	for {
		fd, err = unix.Openat(at, name, flags, mode)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EPERM) && noAccessTime != 0 && flags&noAccessTime != 0: // it belongs to another user
			flags &^= noAccessTime
		default:
			return fd, err
		}
	}
}

func (f folder) stat() (st unix.Stat_t, err error) {
	err = unix.Fstat(f.fd(), &st)
	return st, err
}

// mode is the folder's mode, the one to be set again if it was opened up.
func (f folder) mode(st unix.Stat_t) uint32 {
	if f.shut != nil {
		return *f.shut
	}
	return uint32(st.Mode) & 0o7777
}

// lstat looks at an entry without following it.
func (f folder) lstat(name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// eachName calls do with each name in the folder until it fails.
func (f folder) eachName(do func(name string) error) error {
	for {
		names, err := f.Readdirnames(batch)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !isGone(err) {
			return err
		}
		if len(names) == 0 {
			return nil
		}
	}
}

// isGone reports that an entry vanished, or became something else, between looking and opening: in a tree in use that is
// no failure.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE)
}

func fileType(st unix.Stat_t) uint32 { return uint32(st.Mode) & unix.S_IFMT }
