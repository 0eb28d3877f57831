package view

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// This file puts things into the new root, which is the working directory. A sprite may have
// filled the tree: paths are walked folder by folder, no link is followed, and files in the way of the box's own are removed.

// Site is the new root while things are put into it. It keeps the folder open in which the last one was: most come to where
// another has come before.
type Site struct {
	Level  spec.Level
	parent string
	Dir    int // -1 for none
	late   []lateKnob
}

// lateKnob is a knob that is open to be turned, which nothing can be opened for any more when /proc/sys is sealed.
type lateKnob struct {
	file    *os.File
	content string
}

// TurnLate turns the knobs of the steps that are late. It is called once.
func (w *Site) TurnLate() error {
	var failed []error
	for _, knob := range w.late {
		_, err := knob.file.WriteString(knob.content)
		failed = append(failed, err, knob.file.Close())
	}
	w.late = nil
	return errors.Join(failed...)
}

// inFolder opens the folder in which a path lies.
func (w *Site) inFolder(name string, do func(dir int, name string) error) error {
	if parent := path.Dir(name); w.Dir < 0 || w.parent != parent {
		w.Leave()
		dir, err := openFolder(parent, w.Level)
		if err != nil {
			return err
		}
		w.parent, w.Dir = parent, dir
	}
	return do(w.Dir, path.Base(name))
}

// Leave forgets the open folder, which something may have been mounted over.
func (w *Site) Leave() {
	if w.Dir >= 0 {
		unix.Close(w.Dir)
	}
	w.Dir = -1
}

// CarryOut does one step. mount is the mount that the step opens, if it does.
func (s Step) CarryOut(w *Site, mount int) error {
	switch s.Kind {
	case stepDir:
		return w.inFolder(s.Path, func(dir int, name string) error {
			if err := unix.Mkdirat(dir, name, 0o755); err != nil {
				return spec.Ignoring(unix.EEXIST, err)
			}
			return unix.Fchmodat(dir, name, s.Mode, 0) // mkdir obeys the umask and knows no sticky bit
		})
	case stepLink:
		return w.inFolder(s.Path, func(dir int, name string) error {
			return spec.Ignoring(unix.EEXIST, unix.Symlinkat(s.Source, dir, name))
		})
	case stepText:
		return s.writeText(w)
	case stepUsers:
		return w.inFolder(s.Path, s.writeUsers)
	case stepKnob:
		return spec.Ignoring(unix.ENOENT, s.turnKnob(w))
	case stepSeal:
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		return s.atPlace(w, func(fd int) error { return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr) })
	case stepAgain:
		again, err := unix.OpenTree(unix.AT_FDCWD, s.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(again)
		return s.placeMount(w, again)
	default:
		return s.placeMount(w, mount)
	}
}

// placeMount attaches a mount at the step's path.
func (s Step) placeMount(w *Site, mount int) error {
	if spec.Within(w.parent, s.Path) {
		defer w.Leave()
	}
	return s.atPlace(w, func(fd int) error {
		return unix.MoveMount(mount, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// atPlace opens the step's own place, which it makes if need be.
func (s Step) atPlace(w *Site, do func(fd int) error) error {
	if !s.File && s.Kind != stepText {
		fd, err := openFolder(s.Path, w.Level)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd)
	}
	return w.inFolder(s.Path, func(dir int, name string) error {
		fd, err := openFile(dir, name, w.Level)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd)
	})
}

// writeText writes a file into /dev, which is no part of the tree, and shows it at the step's path.
func (s Step) writeText(w *Site) error {
	const made = "dev/.text"
	fd, err := unix.Open(made, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(s.Content))
	unix.Close(fd)
	if err != nil {
		return err
	}
	again, err := unix.OpenTree(unix.AT_FDCWD, made, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(again)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(again, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	if err := s.placeMount(w, again); err != nil {
		return err
	}
	return unix.Unlink(made) // the mount keeps it
}

// maxUserList bounds a list of users that is left as it is, in bytes.
const maxUserList = 1 << 20

// writeUsers makes the step's list of users a file of the tree, unless one is there that knows user sprite.
func (s Step) writeUsers(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		st, err := f.Stat()
		if err == nil && st.Mode().IsRegular() && st.Size() <= maxUserList {
			text, err := io.ReadAll(io.LimitReader(f, maxUserList))
			if err == nil && strings.Contains("\n"+string(text), "\nsprite:") {
				return nil
			}
		}
	}
	for _, flags := range []int{0, unix.AT_REMOVEDIR} {
		if err = unix.Unlinkat(dir, name, flags); err == nil || errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644); err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(s.Content))
	err = errors.Join(err, unix.Fchmod(fd, 0o644), unix.Fchown(fd, 0, 0))
	unix.Close(fd)
	return err
}

// turnKnob writes to a knob of the box's own namespaces.
func (s Step) turnKnob(w *Site) error {
	fd, err := unix.Open(s.Path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if s.Late {
		w.late = append(w.late, lateKnob{os.NewFile(uintptr(fd), s.Path), s.Content})
		return nil
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(s.Content))
	return err
}

// openFolder opens a folder of the new root. Those that are missing it makes; they belong to the box's root, where it has one.
func openFolder(name string, level spec.Level) (int, error) {
	dir, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || name == "." {
		return dir, err
	}
	for part := range strings.SplitSeq(name, "/") {
		next, err := enterFolder(dir, part, level)
		unix.Close(dir)
		if err != nil {
			return -1, fmt.Errorf("folder %s of %s: %w", part, name, err)
		}
		dir = next
	}
	return dir, nil
}

func enterFolder(dir int, name string, level spec.Level) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		if err := unix.Unlinkat(dir, name, 0); err != nil {
			return -1, err
		}
	case !errors.Is(err, unix.ENOENT):
		return -1, err
	}
	if err := unix.Mkdirat(dir, name, 0o755); err != nil {
		return -1, err
	}
	if err := giveToRoot(dir, name, level); err != nil {
		return -1, err
	}
	return unix.Openat(dir, name, flags, 0)
}

// openFile opens a regular file for something to be mounted over it.
func openFile(dir int, name string, level spec.Level) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return -1, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fd, nil
		}
		unix.Close(fd)
		flags := 0
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			flags = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(dir, name, flags); err != nil {
			return -1, err
		}
	} else if !errors.Is(err, unix.ENOENT) {
		return -1, err
	}
	if fd, err = unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444); err != nil {
		return -1, err
	}
	unix.Close(fd)
	if err := giveToRoot(dir, name, level); err != nil {
		return -1, err
	}
	return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// giveToRoot gives a file that init made to the box's root, so that the sprite cannot change it. A file system that cannot
// change owners, such as the box's /dev, belongs to init and is sealed later. A box with one user has no root to give it to.
func giveToRoot(dir int, name string, level spec.Level) error {
	if level != spec.LevelRoot {
		return nil
	}
	return unix.Fchownat(dir, name, 0, 0, unix.AT_SYMLINK_NOFOLLOW)
}
