package image

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// withFolder calls do with the descriptor of a folder, in which a name is to be used without following links.
func withFolder(in *os.Root, do func(fd int) error) error {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(int(dir.Fd()))
}

func makeFIFO(in *os.Root, base string) error {
	return withFolder(in, func(fd int) error { return unix.Mkfifoat(fd, base, 0o600) })
}

// linkTime sets the time of a link itself.
func linkTime(in *os.Root, base string, at time.Time) error {
	t := unix.NsecToTimespec(at.UnixNano())
	return withFolder(in, func(fd int) error {
		return unix.UtimesNanoAt(fd, base, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// setAttr sets an extended attribute of a file or folder; false when the filesystem has none.
func setAttr(in *os.Root, base, name, value string) (bool, error) {
	f, err := in.Open(base)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) && len(value) > 1024 {
		return false, nil
	}
	return err == nil, err
}

// attrsOf lists the extended attributes of an open file that an image may have.
func attrsOf(f *os.File) (map[string]string, error) {
	fd := int(f.Fd())
	names := make([]byte, maxAttr)
	n, err := unix.Flistxattr(fd, names)
	if errors.Is(err, unix.ENOTSUP) || n == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	value := make([]byte, maxAttr)
	for _, name := range splitNames(names[:n]) {
		if !keptAttr(name) {
			continue
		}
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return nil, err
		}
		all[name] = string(value[:n])
	}
	return all, nil
}

// splitNames takes the kernel's list of names apart, each ended by a NUL.
func splitNames(list []byte) []string {
	return strings.FieldsFunc(string(list), func(r rune) bool { return r == 0 })
}
