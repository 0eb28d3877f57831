package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// ChangeKind is the kind of a difference between two trees.
type ChangeKind string

// The kinds of changes.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified" // content, target of a link, mode or owner
	Deleted  ChangeKind = "deleted"
	Retyped  ChangeKind = "type" // such as a file where a folder was
)

// Change is one difference. From is zero for an addition, To for a deletion.
type Change struct {
	Path     string // below the top, without a leading slash
	Kind     ChangeKind
	From, To Info
}

// Info describes one side of a change.
type Info struct {
	Type string // file, directory, symlink, fifo, socket or device
	Size int64  // of files
	Mode uint32 // the twelve bits
}

func compareStacks(ctx context.Context, from, to []string, exact bool, emit func(Change) error) error {
	a, err := openStack(from)
	if err != nil {
		return fmt.Errorf("compare trees: %w", err)
	}
	defer a.close()
	b, err := openStack(to)
	if err != nil {
		return fmt.Errorf("compare trees: %w", err)
	}
	defer b.close()
	d := differ{ctx: ctx, from: a, to: b, exact: exact, emit: emit}
	x, err := a.openRootOf(0)
	if err != nil {
		return fmt.Errorf("compare trees: %w", err)
	}
	y, err := b.openRootOf(0)
	if err != nil {
		x.close()
		return fmt.Errorf("compare trees: %w", err)
	}
	if err := d.compareFolders(x, y, ""); err != nil {
		return fmt.Errorf("compare trees: %w", err)
	}
	return nil
}

type differ struct {
	ctx      context.Context
	from, to *stack
	exact    bool // times prove nothing
	emit     func(Change) error
}

// compareFolders compares two folders, of which one may be empty, and closes both.
func (d differ) compareFolders(x, y node, at string) error {
	defer x.close()
	defer y.close()
	if x.equals(y) {
		return nil
	}
	names, err := x.listNames()
	if err != nil {
		return err
	}
	more, err := y.listNames()
	if err != nil {
		return err
	}
	names = append(names, more...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		old, err := d.from.lookupVisible(x, name)
		if err != nil {
			return err
		}
		now, err := d.to.lookupVisible(y, name)
		if err != nil {
			_, err = old.closeFailed(err)
			return err
		}
		if err := d.compareEntries(old, now, name, path.Join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

// lookupVisible is lookupName without hidden entries.
func (s *stack) lookupVisible(n node, name string) (*entry, error) {
	e, err := s.lookupName(n, name)
	if isGone(err) || e != nil && e.hidden {
		return nil, nil
	}
	return e, err
}

func (d differ) compareEntries(old, now *entry, name, at string) error {
	change := Change{Path: at}
	switch {
	case old == nil && now == nil:
		return nil
	case old == nil:
		change.Kind, change.To = Added, now.info()
	case now == nil:
		change.Kind, change.From = Deleted, old.info()
	default:
		change.From, change.To = old.info(), now.info()
		if change.From.Type != change.To.Type {
			change.Kind = Retyped
			break
		}
		same, err := d.isUnchanged(old, now, name)
		if err != nil {
			return err
		}
		if !same {
			change.Kind = Modified
		}
	}
	var err error
	if change.Kind != "" {
		err = d.emit(change)
	}
	var x, y node
	if old != nil {
		x = old.node
	}
	if now != nil {
		y = now.node
	}
	if err != nil {
		x.close()
		y.close()
		return err
	}
	return d.compareFolders(x, y, at)
}

func (e *entry) info() Info {
	i := Info{Mode: uint32(e.st.Mode) & 0o7777}
	switch fileType(e.st) {
	case unix.S_IFREG:
		i.Type, i.Size = "file", e.st.Size
	case unix.S_IFDIR:
		i.Type = "directory"
	case unix.S_IFLNK:
		i.Type = "symlink"
	case unix.S_IFIFO:
		i.Type = "fifo"
	case unix.S_IFSOCK:
		i.Type = "socket"
	default:
		i.Type = "device"
	}
	return i
}

// isUnchanged compares two entries of one type.
func (d differ) isUnchanged(old, now *entry, name string) (bool, error) {
	x, y := old.st, now.st
	if x.Dev == y.Dev && x.Ino == y.Ino {
		return true, nil
	}
	if x.Mode != y.Mode || x.Uid != y.Uid || x.Gid != y.Gid {
		return false, nil
	}
	switch fileType(x) {
	case unix.S_IFREG:
		if x.Size != y.Size {
			return false, nil
		}
		if !d.exact && x.Mtim == y.Mtim {
			return true, nil
		}
		if d.exact && (x.Mtim != y.Mtim || !sameAttributes(old.in, now.in, name)) {
			return false, nil
		}
		return sameBytes(d.ctx, old.in, now.in, name)
	case unix.S_IFLNK:
		a, errA := readTarget(old.in, name)
		b, errB := readTarget(now.in, name)
		if err := errors.Join(errA, errB); err != nil && !isGone(err) {
			return false, err
		}
		return a == b, nil
	}
	return true, nil
}

func readTarget(in folder, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(in.fd(), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// sameAttributes compares those attributes of two files that copies keep.
func sameAttributes(a, b folder, name string) bool {
	var sums [2][]byte
	for i, in := range []folder{a, b} {
		f, err := openFile(in, name)
		if err != nil {
			return false
		}
		h := sha256.New()
		attributesOf(h, int(f.Fd()))
		f.Close()
		sums[i] = h.Sum(nil)
	}
	return bytes.Equal(sums[0], sums[1])
}

// sameBytes compares two files. One that cannot be read any more counts as changed.
func sameBytes(ctx context.Context, a, b folder, name string) (bool, error) {
	x, err := openFile(a, name)
	if err != nil {
		return false, unlessGone(err)
	}
	defer x.Close()
	y, err := openFile(b, name)
	if err != nil {
		return false, unlessGone(err)
	}
	defer y.Close()
	info, err := x.Stat()
	if err != nil {
		return false, err
	}
	size := info.Size()
	p, q := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if both := min(nextData(x, off, size), nextData(y, off, size)); both > off {
			off = both // a hole in both
		}
		n, errX := io.ReadFull(io.NewSectionReader(x, off, int64(len(p))), p)
		m, errY := io.ReadFull(io.NewSectionReader(y, off, int64(len(q))), q)
		off += int64(n)
		if n != m || !bytes.Equal(p[:n], q[:m]) {
			return false, nil
		}
		for _, err := range []error{errX, errY} {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
}
