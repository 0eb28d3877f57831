package image

import (
	"archive/tar"
	"io/fs"
	"os"
	"strings"
	"time"
)

// setAttributes gives an entry its owner, mode, extended attributes and times. real is its path in the image.
func (x *extraction) setAttributes(in *os.Root, base, real string, h *tar.Header) error {
	isLink := h.Typeflag == tar.TypeSymlink
	if x.shift > 0 {
		if err := in.Lchown(base, x.mapID(h.Uid), x.mapID(h.Gid)); err != nil {
			return err
		}
	}
	if !isLink {
		if err := in.Chmod(base, x.mapMode(h)); err != nil {
			return err
		}
		if err := x.setXattrs(in, base, h); err != nil {
			return err
		}
	}
	at := h.ModTime
	if at.Before(time.Unix(0, 0)) || at.Unix() > 1<<33 { // years that some filesystems cannot hold
		at = time.Unix(0, 0)
	}
	switch {
	case isLink:
		return linkTime(in, base, at)
	case h.Typeflag == tar.TypeDir:
		x.times[real] = at
		return nil
	}
	return in.Chtimes(base, at, at)
}

// giveToRoot makes a folder that no entry describes the image's root user's.
func (x *extraction) giveToRoot(in *os.Root, name string) error {
	if x.shift > 0 {
		if err := in.Lchown(name, x.shift, x.shift); err != nil {
			return err
		}
	}
	return in.Chmod(name, 0o755)
}

// mapID is the host's id for one of the image.
func (x *extraction) mapID(n int) int {
	if n < 0 || n >= idRange {
		x.leftOut.Owners++
		n = nobody
	}
	return x.shift + n
}

// mapMode returns the mode that an entry gets; see the package comment.
func (x *extraction) mapMode(h *tar.Header) fs.FileMode {
	mode := fs.FileMode(h.Mode & 0o777)
	if h.Mode&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	if x.shift > 0 {
		if h.Mode&0o4000 != 0 {
			mode |= fs.ModeSetuid
		}
		if h.Mode&0o2000 != 0 {
			mode |= fs.ModeSetgid
		}
		return mode
	}
	if h.Mode&0o6000 != 0 {
		x.leftOut.Setid++
	}
	if h.Typeflag == tar.TypeDir {
		return mode | 0o700
	}
	return mode | 0o400
}

// paxAttr is how tar carries an extended attribute.
const paxAttr = "SCHILY.xattr."

// setXattrs sets the extended attributes that an image may have.
func (x *extraction) setXattrs(in *os.Root, base string, h *tar.Header) error {
	kept := 0
	for record, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(record, paxAttr)
		if !ok {
			continue
		}
		if !keptAttr(name) || len(value) > maxAttr || kept == maxAttrs || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			x.leftOut.Attributes++
			continue
		}
		set, err := setAttr(in, base, name, value)
		if err != nil {
			return err
		}
		if !set {
			x.leftOut.Attributes++
		}
		kept++
	}
	return nil
}

// keptAttr reports whether an extended attribute is a program's own. Those of overlay filesystems would tell the kernel
// where to look for files, those of security.* give rights.
func keptAttr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") && len(name) <= maxName
}
