package tree

import (
	"bytes"
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

// Sum is the result of Digest.
type Sum struct {
	Digest  string // hex, of every name, type, mode, owner, target, kept attribute and byte; not of times
	Entries int64
	Bytes   int64 // of files, each inode once
}

func digestTree(ctx context.Context, dir string, dense bool) (Sum, error) {
	top, err := openRoot(dir)
	if err != nil {
		return Sum{}, fmt.Errorf("digest tree: %w", err)
	}
	defer func() { top.Close() }()
	d := digester{ctx: ctx, seen: map[inode]bool{}, buf: make([]byte, zeroBlock), dense: dense}
	st, err := top.stat()
	if err != nil {
		return Sum{}, fmt.Errorf("digest tree: %w", err)
	}
	sum, err := d.hashFolder(&top, st, 0)
	if err != nil {
		return Sum{}, fmt.Errorf("digest tree %s: %w", dir, err)
	}
	d.sum.Digest = hex.EncodeToString(sum)
	return d.sum, nil
}

type digester struct {
	ctx   context.Context
	seen  map[inode]bool
	buf   []byte
	dense bool // read holes, too
	sum   Sum
	most  Sum // where Within ends; zero = nowhere
}

const (
	heldOpen    = 100     // levels of folders that a digest holds open; deeper ones are opened again from below
	digestDepth = 100_000 // bounds the memory for trees that were made to exhaust it
	namedDepth  = 20      // levels that an error names
)

func (d *digester) hashFolder(f *folder, st unix.Stat_t, depth int) ([]byte, error) {
	if depth > digestDepth {
		return nil, fmt.Errorf("more than %d folders deep", digestDepth)
	}
	var names []string
	if err := f.eachName(func(name string) error { names = append(names, name); return nil }); err != nil {
		return nil, err
	}
	slices.Sort(names)
	h := sha256.New()
	writeHead(h, st, f.mode(st))
	attributesOf(h, f.fd())
	for _, name := range names {
		if err := d.ctx.Err(); err != nil {
			return nil, err
		}
		sum, err := d.hashEntry(f, name, depth)
		if err != nil && depth > namedDepth {
			return nil, err
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		}
		writeText(h, name)
		h.Write(sum)
		d.sum.Entries++
	}
	return h.Sum(nil), nil
}

func (d *digester) hashEntry(in *folder, name string, depth int) ([]byte, error) {
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
		defer func() { sub.Close() }()
		if depth < heldOpen {
			return d.hashFolder(&sub, st, depth+1)
		}
		return d.hashSubfolder(in, &sub, st, depth)
	case unix.S_IFREG:
		return d.hashFile(*in, name, st)
	}
	h := sha256.New()
	writeHead(h, st, uint32(st.Mode)&0o7777)
	if fileType(st) == unix.S_IFLNK {
		to, err := readTarget(*in, name)
		if err != nil {
			return nil, err
		}
		writeText(h, to)
	}
	return h.Sum(nil), nil
}

// hashSubfolder is hashFolder for sub. It closes the parent folder while it works.
func (d *digester) hashSubfolder(in, sub *folder, st unix.Stat_t, depth int) ([]byte, error) {
	before, err := in.stat()
	if err != nil {
		return nil, err
	}
	in.File.Close() // its changed mode stays
	sum, err := d.hashFolder(sub, st, depth+1)
	if err != nil {
		return nil, err
	}
	fd, err := openAt(sub.fd(), "..", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	in.File = os.NewFile(uintptr(fd), "..")
	after, err := in.stat()
	if err == nil && (after.Dev != before.Dev || after.Ino != before.Ino) {
		err = errors.New("a folder was moved meanwhile")
	}
	return sum, err
}

func (d *digester) hashFile(in folder, name string, st unix.Stat_t) ([]byte, error) {
	f, err := openFile(in, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	writeHead(h, st, uint32(st.Mode)&0o7777)
	attributesOf(h, int(f.Fd()))
	n := st.Size
	if d.dense {
		n, err = io.CopyBuffer(onlyWriter{h}, onlyReader{f, d.ctx}, d.buf)
	} else {
		err = d.hashBlocks(h, f, st.Size)
	}
	if key := (inode{uint64(st.Dev), st.Ino}); st.Nlink < 2 || !d.seen[key] {
		d.sum.Bytes += n
		if st.Nlink > 1 {
			d.seen[key] = true
		}
	}
	return h.Sum(nil), err
}

// zeroBlock is the size of blocks that are counted instead of hashed if they hold only zeros. Most files are smaller.
const zeroBlock = 1 << 20

// hashBlocks hashes a file of size bytes: its bytes without the whole blocks that are zeros, then, if there are any, the first
// and the number of each run of those, and how many runs. A file without such blocks thus has the digest of its bytes. No
// two files of one size give the same: the addition never has the length of the blocks that were left out.
func (d *digester) hashBlocks(h hash.Hash, f *os.File, size int64) error {
	var runs []byte
	var run [2]int64 // of zero blocks: the first, and how many
	end := func() {
		if run[1] > 0 {
			runs = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(runs, uint64(run[0])), uint64(run[1]))
		}
		run[1] = 0
	}
	skip := func(block, n int64) {
		if run[1] > 0 && run[0]+run[1] != block {
			end()
		}
		if run[1] == 0 {
			run[0] = block
		}
		run[1] += n
	}
	for off, data := int64(0), int64(0); off < size; {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if data <= off { // the hole that may be here was not looked for yet
			data = nextData(f, off, size)
		}
		if n := (data - off) / zeroBlock; n > 0 {
			skip(off/zeroBlock, n)
			off += n * zeroBlock
			continue
		}
		block := d.buf[:min(zeroBlock, size-off)]
		if n, err := f.ReadAt(block, off); n < len(block) {
			return err // io.EOF where it has become shorter
		}
		if len(block) == zeroBlock && allZero(block) {
			skip(off/zeroBlock, 1)
		} else {
			h.Write(block)
		}
		off += int64(len(block))
	}
	if end(); len(runs) > 0 {
		h.Write(runs)
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(runs)/16)))
	}
	return nil
}

var zeros [4 << 10]byte

func allZero(block []byte) bool {
	for ; len(block) > len(zeros); block = block[len(zeros):] {
		if !bytes.Equal(block[:len(zeros)], zeros[:]) {
			return false
		}
	}
	return bytes.Equal(block, zeros[:len(block)])
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

func writeHead(h hash.Hash, st unix.Stat_t, mode uint32) {
	size := int64(0)
	if fileType(st) == unix.S_IFREG {
		size = st.Size
	}
	for _, v := range []uint64{uint64(fileType(st)), uint64(mode), uint64(st.Uid), uint64(st.Gid), uint64(size)} {
		h.Write(binary.BigEndian.AppendUint64(nil, v))
	}
}

func writeText(h hash.Hash, s string) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
	io.WriteString(h, s) // a hash takes everything
}

// openFile opens a regular file, one whose mode shuts out its own user included.
func openFile(in folder, name string) (*os.File, error) {
	fd, err := openAt(in.fd(), name, unix.O_RDONLY, 0)
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

func measureTree(ctx context.Context, dir string) (Sum, error) {
	top, err := openRoot(dir)
	if err != nil {
		return Sum{}, fmt.Errorf("measure tree: %w", err)
	}
	defer top.Close()
	d := digester{ctx: ctx, seen: map[inode]bool{}}
	if err := d.measureFolder(top, 0); err != nil {
		return Sum{}, fmt.Errorf("measure tree %s: %w", dir, err)
	}
	return d.sum, nil
}

// errBeyond ends a measurement that has seen enough.
var errBeyond = errors.New("the tree is larger than was asked")

func isWithin(ctx context.Context, dir string, entries, bytes int64) (bool, error) {
	top, err := openRoot(dir)
	if err != nil {
		return false, fmt.Errorf("measure tree: %w", err)
	}
	defer top.Close()
	d := digester{ctx: ctx, seen: map[inode]bool{}, most: Sum{Entries: entries, Bytes: bytes}}
	err = d.measureFolder(top, 0)
	if errors.Is(err, errBeyond) {
		return false, nil
	}
	return err == nil, err
}

func (d *digester) measureFolder(f folder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("more than %d folders deep", maxDepth)
	}
	return f.eachName(func(name string) error {
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
		return d.measureFolder(sub, depth+1)
	})
}
