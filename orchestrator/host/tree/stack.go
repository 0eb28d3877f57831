package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// A stack is an overlay that is not mounted: folders, each of which hides the entries of the same names in those below it.
// This file reads one as the kernel does: a character device 0:0 hides a name (a whiteout), an opaque folder hides all of the
// folder below it, and a redirected one continues under another name there.

// stack is the layers of one view, topmost first.
type stack struct {
	layers []folder
	marks  marks
}

// maxHeld bounds the folders that work on stacks holds open: how deep it is times the layers that have a part of it.
const maxHeld = 4096

// node is a folder of a stack: the folders that show in it, topmost first.
type node struct {
	depth int // below the root
	parts []part
	below string // its path in the layers below the stack; "" if none of them shows
}

type part struct {
	folder
	layer int
}

// entry is the file that a name in a node stands for.
type entry struct {
	st     unix.Stat_t
	in     folder // the part that has it
	node   node   // of a folder; to be closed
	hidden bool   // a whiteout says that there is nothing of this name
}

func openStack(layers []string) (s *stack, err error) {
	s = &stack{marks: ownMarks()}
	for _, dir := range layers {
		f, err := openRoot(dir)
		if err != nil {
			s.close()
			return nil, err
		}
		s.layers = append(s.layers, f)
	}
	return s, nil
}

func (s *stack) close() {
	for _, f := range s.layers {
		f.Close()
	}
}

// openRootOf returns the root of the view of layer from and those below it.
func (s *stack) openRootOf(from int) (n node, err error) {
	n.below = "/"
	for i := from; i < len(s.layers); i++ {
		f, err := openFolder(s.layers[i].fd(), ".")
		if err != nil {
			n.close()
			return node{}, err
		}
		n.parts = append(n.parts, part{f, i})
		if s.marks.isOpaque(f) {
			n.below = ""
			break
		}
	}
	return n, nil
}

func (n node) close() {
	for _, p := range n.parts {
		p.Close()
	}
}

// equals reports whether two nodes show the same folders, and so the same files.
func (n node) equals(m node) bool {
	return slices.EqualFunc(n.parts, m.parts, func(a, b part) bool {
		x, errX := a.stat()
		y, errY := b.stat()
		return errX == nil && errY == nil && x.Dev == y.Dev && x.Ino == y.Ino
	})
}

// listNames returns the names in a node, hidden ones included, in order.
func (n node) listNames() ([]string, error) {
	var all []string
	for _, p := range n.parts {
		if _, err := p.Seek(0, 0); err != nil {
			return nil, err
		}
		err := p.folder.eachName(func(name string) error {
			all = append(all, name)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// lookupName finds the entry of a name, nil if there is none. The caller closes the entry's node.
func (s *stack) lookupName(n node, name string) (*entry, error) {
	var e *entry
	below := n.below // of the folder that the name is looked up in
	for _, p := range n.parts {
		st, err := p.lstat(name)
		if isGone(err) {
			continue
		}
		if err != nil {
			return e.closeFailed(err)
		}
		isDir := fileType(st) == unix.S_IFDIR
		if !isDir {
			if e != nil {
				e.node.below = "" // a folder above it hides it, and all that lies below
				return e, nil
			}
			return &entry{st: st, in: p.folder, hidden: isWhiteout(st)}, nil
		}
		sub, err := openFolder(p.fd(), name)
		if isGone(err) {
			continue
		}
		if err != nil {
			return e.closeFailed(err)
		}
		if e == nil {
			e = &entry{st: st, in: p.folder, node: node{depth: n.depth + 1}}
		}
		e.node.parts = append(e.node.parts, part{sub, p.layer})
		if held := e.node.depth * len(e.node.parts); held > maxHeld {
			return e.closeFailed(fmt.Errorf("too deep: %d folders in %d layers", e.node.depth, len(e.node.parts)))
		}
		if s.marks.isOpaque(sub) {
			e.node.below = ""
			return e, nil
		}
		switch to := s.marks.findRedirect(sub); {
		case strings.HasPrefix(to, "/"):
			return s.continueAt(e, to, p.layer+1)
		case to != "" && to != "." && to != ".." && !strings.Contains(to, "/"): // a layer's own word is not trusted
			name = to
		}
	}
	if e != nil && below != "" {
		e.node.below = path.Join(below, name)
	}
	return e, nil
}

// continueAt adds to a folder's entry the entries that the layers from below on have at an absolute path.
func (s *stack) continueAt(e *entry, to string, below int) (*entry, error) {
	n, err := s.openRootOf(below)
	if err != nil {
		return e.closeFailed(err)
	}
	for name := range strings.SplitSeq(strings.Trim(path.Clean(to), "/"), "/") {
		next, err := s.lookupName(n, name)
		under := n.below
		n.close()
		switch {
		case err != nil:
			return e.closeFailed(err)
		case next == nil && under != "":
			n = node{below: path.Join(under, name)} // only a layer below the stack can have it
		case next == nil, next.hidden, fileType(next.st) != unix.S_IFDIR:
			e.node.below = ""
			return e, nil
		default:
			n = next.node
		}
	}
	e.node.parts = append(e.node.parts, n.parts...)
	e.node.below = n.below
	return e, nil
}

func (e *entry) closeFailed(err error) (*entry, error) {
	if e != nil {
		e.node.close()
	}
	return nil, err
}

func isWhiteout(st unix.Stat_t) bool { return fileType(st) == unix.S_IFCHR && st.Rdev == 0 }

func mergeLayers(ctx context.Context, dst string, layers []string) error {
	s, err := openStack(layers)
	if err != nil {
		return fmt.Errorf("merge layers: %w", err)
	}
	defer s.close()
	if err := os.Mkdir(dst, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("merge layers: %w", err)
	}
	to, err := openRoot(dst)
	if err != nil {
		return fmt.Errorf("merge layers: %w", err)
	}
	defer to.Close()
	top, err := openRoot(dst)
	if err != nil {
		return fmt.Errorf("merge layers: %w", err)
	}
	defer top.Close()
	group, ctx := errgroup.WithContext(ctx)
	m := merger{s, &copier{ctx: ctx, group: group, top: top, owners: privileged(), merged: true, links: make(map[inode]*link)}}
	root, err := s.openRootOf(0)
	if err != nil {
		return fmt.Errorf("merge layers: %w", err)
	}
	if err := m.mergeFolder(root, to, "/", "."); err != nil {
		return fmt.Errorf("merge layers: %w", err)
	}
	return nil
}

type merger struct {
	*stack
	*copier
}

// mergeFolder copies the visible entries of n to to, and closes n. expected is the path below that a plain folder in to's place
// would continue.
func (m merger) mergeFolder(n node, to folder, expected, at string) error {
	defer n.close()
	names, err := n.listNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		e, err := m.lookupName(n, name)
		if err != nil {
			return &copyError{path.Join(at, name), err}
		}
		if e == nil {
			continue
		}
		if err := m.mergeEntry(n, e, to, name, path.Join(at, name)); err != nil {
			if _, ok := errors.AsType[*copyError](err); ok {
				return err
			}
			return &copyError{path.Join(at, name), err}
		}
	}
	top := n.parts[0].folder
	st, err := top.stat()
	if err != nil {
		return err
	}
	switch {
	case n.below == "" && expected != "":
		err = m.marks.setOpaque(to)
	case n.below != expected:
		err = m.marks.setRedirect(to, n.below)
	}
	if err != nil {
		return err
	}
	return m.copyAttributes(top.fd(), to.fd(), st, top.mode(st))
}

func (m merger) mergeEntry(n node, e *entry, to folder, name, at string) error {
	if e.hidden {
		if n.below == "" {
			return nil
		}
		return makeWhiteout(to.fd(), name)
	}
	if fileType(e.st) != unix.S_IFDIR {
		return m.copier.copyEntry(e.in, to, name, at, 0)
	}
	if err := unix.Mkdirat(to.fd(), name, 0o700); err != nil {
		e.node.close()
		return err
	}
	target, err := openFolder(to.fd(), name)
	if err != nil {
		e.node.close()
		return err
	}
	defer target.Close()
	expected := ""
	if n.below != "" {
		expected = path.Join(n.below, name)
	}
	return m.mergeFolder(e.node, target, expected, at)
}
