package tree

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Relink gives dst those names of hard-linked files that are missing there. When a program writes to a file of a lower layer
// that has several names, the kernel copies it up once, and under that one name; that the other names mean the copy from
// then on, too, is written in the index of the overlay's work folder alone. A layer without its index would show them as
// they were.
//
// layers are those of the overlay, topmost first; they must not change until Relink returns. dst is the topmost or a copy of
// it. Relink reads only the index unless a name is missing, which is rare.
func Relink(ctx context.Context, dst, index string, layers ...string) error {
	idx, err := openRoot(index)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the overlay's index: %w", err)
	}
	defer idx.Close()
	r := &relinker{ctx: ctx, index: idx, files: map[string]*indexed{}, inodes: map[inode]*indexed{}}
	if err := r.readNames(); err != nil {
		return fmt.Errorf("read the overlay's index: %w", err)
	}
	if len(r.files) == 0 {
		return nil
	}
	if r.stack, err = openStack(layers); err != nil {
		return fmt.Errorf("complete hard links: %w", err)
	}
	defer r.close()
	top, err := openRoot(dst)
	if err != nil {
		return fmt.Errorf("complete hard links: %w", err)
	}
	defer top.Close()
	r.copier = &copier{ctx: ctx, top: top, owners: privileged(), merged: true, links: map[inode]*link{}}
	// First the names that are there, then those that are missing: they are linked to the former.
	for _, visit := range []func(string, *entry, string) error{r.noteKnown, r.addMissing} {
		root, err := r.openRootOf(0)
		if err == nil {
			err = r.walkLinked(root, ".", visit)
		}
		if err != nil {
			return fmt.Errorf("complete hard links of %s: %w", dst, err)
		}
	}
	return nil
}

type relinker struct {
	*stack
	copier *copier
	ctx    context.Context
	index  folder
	files  map[string]*indexed // by the file handle of the original below
	inodes map[inode]*indexed  // by the inode in the topmost layer
}

// indexed is a file of the index.
type indexed struct {
	name string // in the index
	path string // a name of it in the copy, once there is one
}

// readNames finds the files of which the topmost layer has only some names.
func (r *relinker) readNames() error {
	return r.index.eachName(func(name string) error {
		st, err := r.index.lstat(name)
		if err != nil || fileType(st) != unix.S_IFREG {
			return err
		}
		handle, ok := originOf(name)
		if !ok || r.isWhole(name, handle, st) {
			return nil
		}
		f := &indexed{name: name}
		r.files[handle], r.inodes[inode{uint64(st.Dev), st.Ino}] = f, f
		return nil
	})
}

// isWhole reports whether all names of a file of the index are in the topmost layer, which has one more, in the index. The
// overlay notes how many there are in all as a difference: "U-1" to those of the copy, or "L+0" to those of the original.
func (r *relinker) isWhole(name, handle string, st unix.Stat_t) bool {
	f, err := openFile(r.index, name)
	if err != nil {
		return false
	}
	defer f.Close()
	value := make([]byte, 64)
	n, err := unix.Fgetxattr(int(f.Fd()), "trusted.overlay.nlink", value)
	if err != nil || n < 2 {
		return false
	}
	difference, err := strconv.Atoi(string(value[1:n]))
	if err != nil {
		return false
	}
	if value[0] == 'U' {
		return difference == -1
	}
	original, err := unix.OpenByHandleAt(r.index.fd(), unix.NewFileHandle(int32(handle[0]), []byte(handle[1:])), unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(original)
	var below unix.Stat_t
	return unix.Fstat(original, &below) == nil && int(st.Nlink)-1 == int(below.Nlink)+difference
}

// originOf reads the name of a file of the index: in hex, five bytes of which the last is the type of the file handle, a
// UUID of the file system, and the handle of the original.
func originOf(name string) (handle string, ok bool) {
	const head, uuid = 5, 16
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) <= head+uuid || raw[1] != 0xfb {
		return "", false
	}
	return string(raw[head-1]) + string(raw[head+uuid:]), true
}

// handleOf returns the same as originOf does for a file that has changed since.
func handleOf(in folder, name string) (string, bool) {
	handle, _, err := unix.NameToHandleAt(in.fd(), name, 0)
	if err != nil {
		return "", false
	}
	return string(byte(handle.Type())) + string(handle.Bytes()), true
}

// walkLinked calls visit for each visible file in n that has several names; it closes n.
func (r *relinker) walkLinked(n node, at string, visit func(name string, e *entry, at string) error) error {
	defer n.close()
	names, err := n.listNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		e, err := r.lookupName(n, name)
		if err != nil {
			return &copyError{path.Join(at, name), err}
		}
		switch {
		case e == nil || e.hidden:
		case fileType(e.st) == unix.S_IFDIR:
			err = r.walkLinked(e.node, path.Join(at, name), visit)
		case fileType(e.st) == unix.S_IFREG && e.st.Nlink > 1:
			err = visit(name, e, path.Join(at, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteKnown notes a name that the topmost layer has.
func (r *relinker) noteKnown(_ string, e *entry, at string) error {
	if f := r.inodes[inode{uint64(e.st.Dev), e.st.Ino}]; f != nil && f.path == "" {
		if _, err := r.copier.top.lstat(at); err == nil {
			f.path = at
		}
	}
	return nil
}

// addMissing adds a name that only a lower layer has.
func (r *relinker) addMissing(name string, e *entry, at string) error {
	handle, ok := handleOf(e.in, name)
	f := r.files[handle]
	if !ok || f == nil || r.inodes[inode{uint64(e.st.Dev), e.st.Ino}] != nil {
		return nil
	}
	in, err := r.openFolderOf(path.Dir(at))
	if err != nil {
		return &copyError{at, err}
	}
	defer in.Close()
	before, err := in.stat()
	if err != nil {
		return &copyError{at, err}
	}
	if f.path == "" { // all the names that it had in the topmost layer are gone
		f.path = at
		if err = r.copier.copyFile(r.index, in, f.name, at); err == nil {
			err = unix.Renameat(in.fd(), f.name, in.fd(), name)
		}
	} else {
		err = unix.Linkat(r.copier.top.fd(), f.path, in.fd(), name, 0)
	}
	if err == nil {
		err = setTimes(in.fd(), before)
	}
	if err != nil {
		return &copyError{at, err}
	}
	return nil
}

// openFolderOf opens a folder of the copy. It makes missing folders like the visible ones of the overlay.
func (r *relinker) openFolderOf(at string) (folder, error) {
	f, err := openFolder(r.copier.top.fd(), ".")
	if err != nil {
		return folder{}, err
	}
	shown, err := r.openRootOf(0)
	if err != nil {
		f.Close()
		return folder{}, err
	}
	defer func() { shown.close() }()
	for name := range strings.SplitSeq(at, "/") {
		if name == "." {
			break
		}
		e, err := r.lookupName(shown, name)
		if err == nil && (e == nil || e.hidden || fileType(e.st) != unix.S_IFDIR) {
			err = unix.ENOENT
		}
		if err != nil {
			f.Close()
			return folder{}, err
		}
		shown.close()
		shown = e.node
		next, err := r.subfolderLike(f, name, shown.parts[0].folder)
		f.Close()
		if err != nil {
			return folder{}, err
		}
		f = next
	}
	return f, nil
}

// subfolderLike opens a folder of the copy, made with the attributes of another if it is missing.
func (r *relinker) subfolderLike(in folder, name string, like folder) (folder, error) {
	f, err := openFolder(in.fd(), name)
	if !errors.Is(err, unix.ENOENT) {
		return f, err
	}
	above, err := in.stat()
	if err != nil {
		return folder{}, err
	}
	if err := unix.Mkdirat(in.fd(), name, 0o700); err != nil {
		return folder{}, err
	}
	if err := setTimes(in.fd(), above); err != nil {
		return folder{}, err
	}
	if f, err = openFolder(in.fd(), name); err != nil {
		return folder{}, err
	}
	st, err := like.stat()
	if err == nil {
		err = r.copier.copyAttributes(like.fd(), f.fd(), st, like.mode(st))
	}
	if err != nil {
		f.Close()
		return folder{}, err
	}
	return f, nil
}
