package tree

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Sum is what Digest found.
type Sum struct {
	Digest  string // hex, of every name, type, mode, owner, target, kept attribute and byte; not of times
	Entries int64
	Bytes   int64 // of files, each inode once
}

// Digest reads a whole tree that nobody changes. The digest of a folder is made of those of its entries, so that equal
// trees have equal digests on any file system.
func Digest(ctx context.Context, dir string) (Sum, error) {
	top, err := openRoot(dir)
	if err != nil {
		return Sum{}, fmt.Errorf("digest tree: %w", err)
	}
	defer top.Close()
	d := digester{ctx: ctx, seen: map[inode]bool{}, buf: make([]byte, 256<<10)}
	st, err := top.stat()
	if err != nil {
		return Sum{}, fmt.Errorf("digest tree: %w", err)
	}
	sum, err := d.folder(top, st, 0)
	if err != nil {
		return Sum{}, fmt.Errorf("digest tree %s: %w", dir, err)
	}
	d.sum.Digest = hex.EncodeToString(sum)
	return d.sum, nil
}

type digester struct {
	ctx  context.Context
	seen map[inode]bool
	buf  []byte
	sum  Sum
	most Sum // where Within ends; zero = nowhere
}

func (d *digester) folder(f folder, st unix.Stat_t, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d folders deep", maxDepth)
	}
	var names []string
	if err := f.names(func(name string) error { names = append(names, name); return nil }); err != nil {
		return nil, err
	}
	slices.Sort(names)
	h := sha256.New()
	head(h, st, f.mode(st))
	attributesOf(h, f.fd())
	for _, name := range names {
		if err := d.ctx.Err(); err != nil {
			return nil, err
		}
		sum, err := d.entry(f, name, depth)
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		}
		text(h, name)
		h.Write(sum)
		d.sum.Entries++
	}
	return h.Sum(nil), nil
}

func (d *digester) entry(in folder, name string, depth int) ([]byte, error) {
	st, err := in.lstat(name)
	if err != nil {
		return nil, err
	}
	switch fileType(st) {
	case unix.S_IFDIR:
		sub, err := openFolder(in.fd(), name)
		if err != nil {
			return nil, err
		}
		defer sub.Close()
		return d.folder(sub, st, depth+1)
	case unix.S_IFREG:
		return d.file(in, name, st)
	}
	h := sha256.New()
	head(h, st, uint32(st.Mode)&0o7777)
	if fileType(st) == unix.S_IFLNK {
		to, err := target(in, name)
		if err != nil {
			return nil, err
		}
		text(h, to)
	}
	return h.Sum(nil), nil
}

func (d *digester) file(in folder, name string, st unix.Stat_t) ([]byte, error) {
	f, err := openFile(in, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	head(h, st, uint32(st.Mode)&0o7777)
	attributesOf(h, int(f.Fd()))
	n, err := io.CopyBuffer(onlyWriter{h}, onlyReader{f, d.ctx}, d.buf)
	if key := (inode{uint64(st.Dev), st.Ino}); st.Nlink < 2 || !d.seen[key] {
		d.sum.Bytes += n
		if st.Nlink > 1 {
			d.seen[key] = true
		}
	}
	return h.Sum(nil), err
}

// onlyWriter and onlyReader keep io.Copy to the buffer, and to the context.
type onlyWriter struct{ io.Writer }

type onlyReader struct {
	io.Reader
	ctx context.Context
}

func (r onlyReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

func head(h hash.Hash, st unix.Stat_t, mode uint32) {
	size := int64(0)
	if fileType(st) == unix.S_IFREG {
		size = st.Size
	}
	for _, v := range []uint64{uint64(fileType(st)), uint64(mode), uint64(st.Uid), uint64(st.Gid), uint64(size)} {
		h.Write(binary.BigEndian.AppendUint64(nil, v))
	}
}

func text(h hash.Hash, s string) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
	io.WriteString(h, s) // a hash takes everything
}

// openFile opens a regular file, one whose mode shuts out its own user included.
func openFile(in folder, name string) (*os.File, error) {
	fd, err := openat(in.fd(), name, unix.O_RDONLY, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = openLocked(in.fd(), name, unix.O_RDONLY)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || fileType(st) != unix.S_IFREG {
		unix.Close(fd)
		return nil, errors.Join(err, unix.ENOENT)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Size counts the entries and bytes of a tree, which may be in use. Bytes are those that are allocated, each inode's once.
func Size(ctx context.Context, dir string) (Sum, error) {
	top, err := openRoot(dir)
	if err != nil {
		return Sum{}, fmt.Errorf("measure tree: %w", err)
	}
	defer top.Close()
	d := digester{ctx: ctx, seen: map[inode]bool{}}
	if err := d.measure(top, 0); err != nil {
		return Sum{}, fmt.Errorf("measure tree %s: %w", dir, err)
	}
	return d.sum, nil
}

// errBeyond ends a measurement that has seen enough.
var errBeyond = errors.New("the tree is larger than was asked")

// Within reports whether a tree, which may be in use, has at most so many entries and bytes. It looks at no more of them.
func Within(ctx context.Context, dir string, entries, bytes int64) (bool, error) {
	top, err := openRoot(dir)
	if err != nil {
		return false, fmt.Errorf("measure tree: %w", err)
	}
	defer top.Close()
	d := digester{ctx: ctx, seen: map[inode]bool{}, most: Sum{Entries: entries, Bytes: bytes}}
	err = d.measure(top, 0)
	if errors.Is(err, errBeyond) {
		return false, nil
	}
	return err == nil, err
}

func (d *digester) measure(f folder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("more than %d folders deep", maxDepth)
	}
	return f.names(func(name string) error {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		st, err := f.lstat(name)
		if err != nil {
			return unlessGone(err)
		}
		if d.most.Entries > 0 && (d.sum.Entries >= d.most.Entries || d.sum.Bytes > d.most.Bytes) {
			return errBeyond
		}
		d.sum.Entries++
		key := inode{uint64(st.Dev), st.Ino}
		if st.Nlink < 2 || fileType(st) == unix.S_IFDIR || !d.seen[key] {
			d.sum.Bytes += st.Blocks * 512
			if st.Nlink > 1 {
				d.seen[key] = true
			}
		}
		if fileType(st) != unix.S_IFDIR {
			return nil
		}
		sub, err := openFolder(f.fd(), name)
		if err != nil {
			return unlessGone(err)
		}
		defer sub.Close()
		return d.measure(sub, depth+1)
	})
}
