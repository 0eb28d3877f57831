package sandbox

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// This file puts things into the new root, which is the working directory. The tree there may be one that a sprite has
// filled: paths are walked folder by folder, no link is followed, and what stands where the box needs a place goes.

// carryOut does one step. mount is the mount that the step opens, if it does.
func (s step) carryOut(mount int, level Level) error {
	switch s.Kind {
	case stepDir:
		return s.in(level, func(dir int, name string) error {
			if err := unix.Mkdirat(dir, name, 0o755); err != nil {
				return ignoring(unix.EEXIST, err)
			}
			return unix.Fchmodat(dir, name, s.Mode, 0) // mkdir obeys the umask and knows no sticky bit
		})
	case stepLink:
		return s.in(level, func(dir int, name string) error {
			return ignoring(unix.EEXIST, unix.Symlinkat(s.Source, dir, name))
		})
	case stepText:
		return s.text(level)
	case stepKnob:
		return ignoring(unix.ENOENT, s.turn())
	case stepSeal:
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		return s.at(level, func(fd int) error { return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr) })
	case stepAgain:
		again, err := unix.OpenTree(unix.AT_FDCWD, s.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(again)
		return s.place(again, level)
	default:
		return s.place(mount, level)
	}
}

func ignoring(expected unix.Errno, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// place attaches a mount at the step's path.
func (s step) place(mount int, level Level) error {
	return s.at(level, func(fd int) error {
		return unix.MoveMount(mount, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// at opens the step's own place, which it makes if need be.
func (s step) at(level Level, do func(fd int) error) error {
	if !s.File && s.Kind != stepText {
		fd, err := folder(s.Path, level)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd)
	}
	return s.in(level, func(dir int, name string) error {
		fd, err := file(dir, name, level)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd)
	})
}

// in opens the folder in which the step's path lies.
func (s step) in(level Level, do func(dir int, name string) error) error {
	dir, err := folder(path.Dir(s.Path), level)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return do(dir, path.Base(s.Path))
}

// text writes a file into /dev, which is no part of the tree, and shows it at the step's path.
func (s step) text(level Level) error {
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
	if err := s.place(again, level); err != nil {
		return err
	}
	return unix.Unlink(made) // the mount keeps it
}

// turn writes to a knob of the box's own namespaces.
func (s step) turn() error {
	fd, err := unix.Open(s.Path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(s.Content))
	return err
}

// folder opens a folder of the new root. Those that are missing it makes; they belong to the box's root, where it has one.
func folder(name string, level Level) (int, error) {
	dir, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil || name == "." {
		return dir, err
	}
	for _, part := range strings.Split(name, "/") {
		next, err := enterFolder(dir, part, level)
		unix.Close(dir)
		if err != nil {
			return -1, fmt.Errorf("folder %s of %s: %w", part, name, err)
		}
		dir = next
	}
	return dir, nil
}

func enterFolder(dir int, name string, level Level) (int, error) {
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

// file opens a regular file for something to be mounted over it.
func file(dir int, name string, level Level) (int, error) {
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

// giveToRoot gives what init has made to the box's root, so that the sprite cannot change it. A file system that cannot take
// it, such as the box's /dev, is init's and sealed later. With one user in the box there is nobody to give it to.
func giveToRoot(dir int, name string, level Level) error {
	if level != LevelRoot {
		return nil
	}
	return unix.Fchownat(dir, name, 0, 0, unix.AT_SYMLINK_NOFOLLOW)
}
