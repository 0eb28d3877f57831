package image

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/bytecount"
)

const (
	maxName  = 255  // bytes of one name
	maxPath  = 4095 // bytes of a path
	maxDepth = 256  // folders in each other
	maxLinks = 40   // links on the way to one entry, as the kernel has it
	maxAttrs = 64   // extended attributes of one entry
	maxAttr  = 64 << 10
	nobody   = 65534
	idRange  = 65536 // ids that a sprite can have
)

// extraction unpacks layers, the lowest first, into one folder. No other process may change the folder until it ends.
type extraction struct {
	root     *os.Root
	shift    int // 0 = everything is the caller's
	limits   Limits
	progress func(entries int, bytes int64)

	entries int
	size    int64             // of files, holes included
	read    int64             // of tar streams
	blobs   bytecount.Counter // of the files that hold them
	leftOut LeftOut

	at    *folder              // the folder of the last entry; most entries follow others of the same one
	times map[string]time.Time // of folders, set by finish: work in them changes them
	made  map[string]bool      // paths made by the current layer; nil if whiteouts have no meaning
	buf   []byte
}

// folder is an open folder of the image, by its path without links.
type folder struct {
	*os.Root
	name string // as entries named it
	real string
}

func newExtraction(dir string, shift int, limits Limits, progress func(int, int64)) (*extraction, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &extraction{
		root: root, shift: shift, limits: limits.withDefaults(), progress: progress,
		times: map[string]time.Time{}, buf: make([]byte, 64<<10),
	}, nil
}

func (x *extraction) close() error {
	x.leaveFolder()
	return x.root.Close()
}

// unpackLayer unpacks one uncompressed tar, and reads it to its end. With whiteouts, .wh. files remove entries of
// lower layers; without, they are ordinary files.
func (x *extraction) unpackLayer(ctx context.Context, r io.Reader, whiteouts bool) error {
	x.made = nil
	if whiteouts {
		x.made = map[string]bool{}
	}
	r = &meter{ctx: ctx, r: r, x: x}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return refuseImage("the tar is damaged or cut off after %d entries: %v", x.entries, err)
		}
		if err != nil {
			return err
		}
		if err := x.unpackEntry(h, ending{ctx, t}); err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, err)
		}
	}
	_, err := io.Copy(io.Discard, r) // the digest covers the bytes after the tar's end
	return err
}

// meter is a reader that limits and reports the bytes read, and ends with ctx.
type meter struct {
	ctx  context.Context
	r    io.Reader
	x    *extraction
	told int64
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.x.read += int64(n)
	if m.x.read > m.x.limits.Bytes {
		return n, refuseImage("it holds more than %d bytes", m.x.limits.Bytes)
	}
	if m.x.read-m.told >= 16<<20 {
		m.told = m.x.read
		m.x.progress(m.x.entries, m.x.read)
	}
	return n, err
}

// ending is content that ends with its context: a hole is not read from anywhere, however large it is.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (e ending) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}

// unpackEntry unpacks one entry.
func (x *extraction) unpackEntry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if x.entries++; x.entries > x.limits.Entries {
		return refuseImage("the image has more than %d entries", x.limits.Entries)
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return refuseImage("it stands for the whole image and is no folder")
		}
		return x.setAttributes(x.root, ".", ".", h)
	}
	dir, base := path.Split(name)
	in, err := x.enterFolder(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(base, whiteoutPrefix); ok && x.made != nil {
		return x.applyWhiteout(in, rest)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = x.makeFolder(in, base)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		err = x.unpackFile(in, base, h.Size, content)
	case tar.TypeSymlink:
		if len(h.Linkname) > maxPath || h.Linkname == "" || strings.ContainsRune(h.Linkname, 0) {
			return refuseImage("it links to what can be no path")
		}
		if err = x.clearEntry(in, base); err == nil {
			err = in.Symlink(h.Linkname, base)
		}
	case tar.TypeLink:
		return x.hardLink(in, base, h.Linkname)
	case tar.TypeFifo:
		if err = x.clearEntry(in, base); err == nil {
			err = makeFIFO(in.Root, base)
		}
	case tar.TypeChar, tar.TypeBlock:
		x.leftOut.Devices++
		return nil
	default:
		return refuseImage("it is of type %q, which is unknown here", h.Typeflag)
	}
	if err != nil {
		return err
	}
	x.notePath(in.joinReal(base))
	return x.setAttributes(in.Root, base, in.joinReal(base), h)
}

// cleanName turns an entry's name into a path below the image, "." for the image itself.
func cleanName(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", refuseImage("its name holds a NUL")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", refuseImage(`its name holds "..", which could lead out of the image`)
		case len(part) > maxName:
			return "", refuseImage("its name is longer than %d bytes", maxName)
		}
		parts = append(parts, part)
	}
	clean := strings.Join(parts, "/")
	switch {
	case clean == "":
		return ".", nil
	case len(clean) > maxPath:
		return "", refuseImage("its path is longer than %d bytes", maxPath)
	case len(parts) > maxDepth:
		return "", refuseImage("it lies more than %d folders deep", maxDepth)
	}
	return clean, nil
}

func (f *folder) joinReal(base string) string { return path.Join(f.real, base) }

// enterFolder opens the folder of an entry, and makes it with its parents when an archive does not mention them.
func (x *extraction) enterFolder(name string) (*folder, error) {
	if x.at != nil && x.at.name == name {
		return x.at, nil
	}
	x.leaveFolder()
	real, err := x.resolvePath(name, true)
	if err != nil {
		return nil, err
	}
	root, err := x.root.OpenRoot(cmp.Or(real, "."))
	if err != nil {
		return nil, err
	}
	x.at = &folder{root, name, real}
	return x.at, nil
}

// leaveFolder closes the folder at hand. It must be called whenever a folder is removed.
func (x *extraction) leaveFolder() {
	if x.at != nil {
		_ = x.at.Close() // nothing was written through it
		x.at = nil
	}
}

// resolvePath follows the links in the path of a folder as a process in the image would. It returns the path without
// links, "" for the image itself. Missing folders are made if create says so, but never behind a link.
func (x *extraction) resolvePath(name string, create bool) (string, error) {
	type step struct {
		name   string
		linked bool // comes from a link
	}
	var todo []step
	push := func(p string, linked bool) {
		parts := strings.Split(p, "/")
		for _, part := range slices.Backward(parts) {
			if part != "" && part != "." {
				todo = append(todo, step{part, linked})
			}
		}
	}
	push(name, false)
	real, links := "", 0
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.name == ".." { // of a link: the parent of the root is the root
			real = strings.TrimPrefix(path.Dir("/"+real), "/")
			continue
		}
		next := path.Join(real, s.name)
		info, err := x.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && create && !s.linked:
			if err := x.root.Mkdir(next, 0o755); err != nil {
				return "", err
			}
			if err := x.giveToRoot(x.root, next); err != nil {
				return "", err
			}
			x.notePath(next)
		case errors.Is(err, fs.ErrNotExist):
			return "", refuseImage("it lies behind %q, which is not there", next)
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", refuseImage("it lies behind more than %d links", maxLinks)
			}
			target, err := x.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if strings.HasPrefix(target, "/") {
				real = ""
			}
			push(target, true)
			continue
		case !info.IsDir():
			return "", refuseImage("it lies in %q, which is no folder", next)
		}
		real = next
	}
	return real, nil
}

// clearEntry removes an older entry of the same name: of two entries with one name the later one counts.
func (x *extraction) clearEntry(in *folder, base string) error {
	_, err := in.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return in.RemoveAll(base)
}

func (x *extraction) makeFolder(in *folder, base string) error {
	info, err := in.Lstat(base)
	if err == nil && info.IsDir() {
		return nil // its entries stay
	}
	if err == nil {
		err = in.RemoveAll(base)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return in.Mkdir(base, 0o700)
}

func (x *extraction) unpackFile(in *folder, base string, size int64, content io.Reader) (err error) {
	if x.size += size; x.size > x.limits.Bytes || size < 0 {
		return refuseImage("the image's files have more than %d bytes", x.limits.Bytes)
	}
	if err := x.clearEntry(in, base); err != nil {
		return err
	}
	f, err := in.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return x.writeSparse(f, size, content)
}

// writeSparse leaves holes where there is nothing but zeros.
func (x *extraction) writeSparse(f *os.File, size int64, content io.Reader) error {
	hole := false
	for left := size; left > 0; {
		part := x.buf[:min(left, int64(len(x.buf)))]
		if _, err := io.ReadFull(content, part); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
				return refuseImage("the tar is cut off in the middle of a file")
			}
			return err
		}
		left -= int64(len(part))
		var err error
		if hole = len(part) == len(x.buf) && isZero(part); hole {
			_, err = f.Seek(int64(len(part)), io.SeekCurrent)
		} else {
			_, err = f.Write(part)
		}
		if err != nil {
			return err
		}
	}
	if hole {
		return f.Truncate(size)
	}
	return nil
}

func isZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// hardLink links to a file that was unpacked before. It refuses all other targets.
func (x *extraction) hardLink(in *folder, base, target string) error {
	clean, err := cleanName(target)
	if err != nil {
		return fmt.Errorf("link to %q: %w", target, err)
	}
	dir, last := path.Split(clean)
	real, err := x.resolvePath(strings.TrimSuffix(dir, "/"), false)
	if err != nil {
		return fmt.Errorf("link to %q: %w", target, err)
	}
	old := path.Join(real, last)
	info, err := x.root.Lstat(old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuseImage("it is a hard link to %q, which is not there", target)
	case err != nil:
		return err
	case info.IsDir():
		return refuseImage("it is a hard link to the folder %q", target)
	case old == in.joinReal(base):
		return nil
	}
	if err := x.clearEntry(in, base); err != nil {
		return err
	}
	x.notePath(in.joinReal(base))
	return x.root.Link(old, in.joinReal(base))
}

// setDeferred sets the deferred attributes. It is called once, after the last layer.
func (x *extraction) setDeferred() error {
	x.leaveFolder()
	known := map[string]bool{".": true}
	for name, at := range x.times {
		if !x.isFolder(name, known) {
			continue // a later entry replaced it, or one of its parents
		}
		if err := x.root.Chtimes(name, at, at); err != nil {
			return err
		}
	}
	return nil
}

// isFolder reports whether a path is a folder, and none of its parents is a link. known caches the answers.
func (x *extraction) isFolder(name string, known map[string]bool) bool {
	is, ok := known[name]
	if !ok && x.isFolder(path.Dir(name), known) {
		info, err := x.root.Lstat(name)
		is = err == nil && info.IsDir()
	}
	known[name] = is
	return is
}
