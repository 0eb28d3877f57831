package tree

import (
	"hash"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// marks are the attributes by which overlays mark folders: those of mounts made by root, or by ordinary users.
type marks struct{ prefix string }

func ownMarks() marks {
	if os.Geteuid() == 0 {
		return marks{"trusted.overlay."}
	}
	return marks{"user.overlay."}
}

func (m marks) getMark(f folder, name string) string {
	value := make([]byte, 4096)
	n, err := unix.Fgetxattr(f.fd(), m.prefix+name, value)
	if err != nil {
		return ""
	}
	return string(value[:n])
}

func (m marks) isOpaque(f folder) bool { return m.getMark(f, "opaque") == "y" }

// findRedirect returns the path under which a folder continues below, "" if it continues under its own name or the mark is not
// a valid name.
func (m marks) findRedirect(f folder) string {
	to := m.getMark(f, "redirect")
	for part := range strings.SplitSeq(to, "/") {
		if len(part) > unix.NAME_MAX || strings.ContainsRune(part, 0) {
			return ""
		}
	}
	return to
}

func (m marks) setOpaque(f folder) error {
	return unix.Fsetxattr(f.fd(), m.prefix+"opaque", []byte("y"), 0)
}

func (m marks) setRedirect(f folder, to string) error {
	return unix.Fsetxattr(f.fd(), m.prefix+"redirect", []byte(to), 0)
}

// isKept reports whether an attribute is copied. Of the overlay's own attributes only the marks are: the others concern the
// original's inodes.
func isKept(name string) bool {
	for _, overlay := range []string{"trusted.overlay.", "user.overlay."} {
		if own, is := strings.CutPrefix(name, overlay); is {
			return own == "opaque" || own == "redirect"
		}
	}
	return strings.HasPrefix(name, "user.") || name == "security.capability" || strings.HasPrefix(name, "system.posix_acl_")
}

// isMark reports whether an attribute decides which names an overlay shows.
func isMark(name string) bool {
	return strings.HasPrefix(name, "trusted.overlay.") || strings.HasPrefix(name, "user.overlay.")
}

// makeWhiteout makes a whiteout, which hides a name of the layers below.
func makeWhiteout(at int, name string) error { return unix.Mknodat(at, name, unix.S_IFCHR, 0) }

// attributesOf adds to a digest the attributes that copies keep.
func attributesOf(h hash.Hash, fd int) {
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(fd, list)
	if err != nil || n == 0 {
		return
	}
	names := strings.Split(strings.TrimRight(string(list[:n]), "\x00"), "\x00")
	slices.Sort(names)
	value := make([]byte, 64<<10)
	for _, name := range names {
		if !isKept(name) {
			continue
		}
		if n, err := unix.Fgetxattr(fd, name, value); err == nil {
			writeText(h, name)
			writeText(h, string(value[:n]))
		}
	}
}
