package objects

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// Receipt says what a pack that was received held.
type Receipt struct {
	Objects int64
	Bytes   int64
}

// Intake says how a pack is received.
type Intake struct {
	MaxObjects int64 // 0 is no limit
	MaxBytes   int64
	// Check judges each commit, tree and tag, nil for none; its error refuses the pack.
	Check  func(typ Type, data []byte) error
	Follow func(phase string, done, total, bytes int64)
}

// received is one object of a pack on its way in.
type received struct {
	offset int64
	size   int64
	base   int64 // offset of the base, -1 when it is named by ref or there is none
	ref    ID
	id     ID
	crc    uint32
	typ    Type
	done   bool
}

// Receive takes a pack from a stream: it goes to disk as it comes, is indexed, checked and made durable, and then put
// among the packs. Every object must be in the pack or built upon one that is. An empty pack leaves nothing.
func (s *Store) Receive(ctx context.Context, from io.Reader, in Intake) (Receipt, error) {
	folder := filepath.Join(s.dirs[0], "pack")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return Receipt{}, err
	}
	f, err := os.CreateTemp(folder, "tmp_pack_")
	if err != nil {
		return Receipt{}, err
	}
	defer os.Remove(f.Name()) // unless it was renamed
	defer f.Close()
	x := &indexer{ctx: ctx, in: in, file: f}
	sum, err := x.scan(from)
	if err == nil && len(x.objects) > 0 {
		err = x.resolve()
	}
	receipt := Receipt{Objects: int64(len(x.objects)), Bytes: x.bytes}
	if err != nil || len(x.objects) == 0 {
		return receipt, err
	}
	return receipt, s.place(x, sum)
}

// place writes the index and gives pack and index their names, the pack first.
func (s *Store) place(x *indexer, sum ID) error {
	idx := new(idxfile.Writer)
	if err := idx.OnHeader(uint32(len(x.objects))); err != nil {
		return err
	}
	for _, o := range x.objects {
		idx.Add(o.id, uint64(o.offset), o.crc)
	}
	if err := idx.OnFooter(sum); err != nil {
		return fmt.Errorf("index the pack: %w", err)
	}
	table, err := idx.Index()
	if err != nil {
		return fmt.Errorf("index the pack: %w", err)
	}
	folder := filepath.Dir(x.file.Name())
	out, err := os.CreateTemp(folder, "tmp_idx_")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	w := bufio.NewWriter(out)
	_, err = idxfile.NewEncoder(w).Encode(table)
	err = errors.Join(err, w.Flush(), out.Chmod(0o444), out.Sync(), out.Close(), x.file.Chmod(0o444), x.file.Sync())
	if err != nil {
		return fmt.Errorf("index the pack: %w", err)
	}
	name := filepath.Join(folder, "pack-"+hex.EncodeToString(sum[:]))
	for _, move := range [][2]string{{x.file.Name(), name + ".pack"}, {out.Name(), name + ".idx"}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			return err
		}
	}
	p, err := openPack(name)
	if err != nil {
		return err
	}
	if err := s.list(); err != nil {
		return errors.Join(err, p.close())
	}
	if !slices.ContainsFunc(s.packs, func(q *pack) bool { return q.name == name }) {
		s.packs = append(s.packs, p)
	} else if err := p.close(); err != nil {
		return err
	}
	return syncDir(folder)
}

// indexer finds out what a pack holds.
type indexer struct {
	ctx     context.Context
	in      Intake
	file    *os.File
	bytes   int64
	objects []received
	total   int64

	inflater inflater
	byBase   map[int64][]int // deltas by the offset of their base
	byRef    map[ID][]int
	done     int64
}

// Write is where the stream passes on its way to disk.
func (x *indexer) Write(p []byte) (int, error) {
	if err := x.ctx.Err(); err != nil {
		return 0, context.Cause(x.ctx)
	}
	if x.bytes += int64(len(p)); x.in.MaxBytes > 0 && x.bytes > x.in.MaxBytes {
		return 0, fmt.Errorf("%w: the pack has more than %d bytes", ErrTooLarge, x.in.MaxBytes)
	}
	return x.file.Write(p)
}

func (x *indexer) follow(phase string, done int64) {
	if x.in.Follow != nil && (done%512 == 0 || done == x.total) {
		x.in.Follow(phase, done, x.total, x.bytes)
	}
}

// source hides from the scanner that a reader may be able to seek, and keeps what went wrong with reading or with writing
// it down: the scanner tells neither from a broken pack.
type source struct {
	io.Reader
	failed error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}

// scan copies the stream to disk and notes where its objects are. What is no delta is named and checked in passing.
func (x *indexer) scan(from io.Reader) (ID, error) {
	stream := &source{Reader: io.TeeReader(from, x)}
	broken := func(err error) (ID, error) {
		switch cause := context.Cause(x.ctx); {
		case cause != nil:
			err = cause
		case stream.failed != nil:
			err = stream.failed
		case !errors.Is(err, ErrHostile) && !errors.Is(err, ErrTooLarge):
			err = fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return ID{}, fmt.Errorf("read the pack: %w", err)
	}
	scanner := packfile.NewScanner(stream)
	_, count, err := scanner.Header()
	if err != nil {
		return broken(err)
	}
	x.total = int64(count)
	if x.in.MaxObjects > 0 && x.total > x.in.MaxObjects {
		return ID{}, fmt.Errorf("%w: the pack has %d objects, more than %d", ErrTooLarge, x.total, x.in.MaxObjects)
	}
	for i := range x.total {
		if err := x.next(scanner); err != nil {
			return broken(err)
		}
		x.follow("receiving", i+1)
	}
	sum, err := scanner.Checksum()
	if err != nil {
		return broken(err)
	}
	end := int64(12 + 20)
	if n := len(x.objects); n > 0 {
		if end, err = x.end(x.objects[n-1].offset); err != nil {
			return broken(err)
		}
	}
	if end > x.bytes {
		return broken(io.ErrUnexpectedEOF)
	}
	x.bytes = end
	return sum, x.file.Truncate(end) // whatever followed it in the stream
}

// end is where the pack ends whose last entry lies at an offset.
func (x *indexer) end(offset int64) (int64, error) {
	h, err := x.inflater.at(x.file, offset)
	if err != nil {
		return 0, err
	}
	n, err := x.inflater.skip(h.size)
	return h.start + n + 20, err
}

func (x *indexer) next(scanner *packfile.Scanner) error {
	h, err := scanner.NextObjectHeader()
	if err != nil {
		return err
	}
	o := received{offset: h.Offset, size: h.Length, base: -1, typ: h.Type}
	var to io.Writer = io.Discard
	var keep *bytes.Buffer
	var hasher plumbing.Hasher
	switch h.Type {
	case ofsDelta:
		o.base = h.OffsetReference
	case refDelta:
		o.ref = h.Reference
	case Commit, Tree, Blob, Tag:
		hasher = plumbing.NewHasher(h.Type, h.Length)
		to = hasher
		if h.Type != Blob && x.in.Check != nil {
			if h.Length > MaxInMemory {
				return ErrTooLarge
			}
			keep = new(bytes.Buffer)
			to = io.MultiWriter(hasher, keep)
		}
	default:
		return fmt.Errorf("%w: an object of an unknown type", ErrCorrupt)
	}
	n, crc, err := scanner.NextObject(to)
	if err != nil {
		return err
	}
	if n != h.Length {
		return fmt.Errorf("%w: an object is shorter than announced", ErrCorrupt)
	}
	o.crc = crc
	if to != io.Discard {
		o.id, o.done = hasher.Sum(), true
	}
	if keep != nil {
		if err := x.in.Check(h.Type, keep.Bytes()); err != nil {
			return err
		}
	}
	x.objects = append(x.objects, o)
	return nil
}

// resolve names and checks the deltas: from each whole object down what builds upon it.
func (x *indexer) resolve() error {
	x.byBase, x.byRef = map[int64][]int{}, map[ID][]int{}
	for i, o := range x.objects {
		switch o.typ {
		case ofsDelta:
			x.byBase[o.base] = append(x.byBase[o.base], i)
		case refDelta:
			x.byRef[o.ref] = append(x.byRef[o.ref], i)
		}
	}
	for i := range x.objects {
		o := &x.objects[i]
		if o.typ == ofsDelta || o.typ == refDelta {
			continue
		}
		if x.done++; len(x.byBase[o.offset])+len(x.byRef[o.id]) > 0 {
			if err := x.family(i); err != nil {
				return err
			}
		}
		x.follow("resolving", x.done)
	}
	for _, o := range x.objects {
		if !o.done {
			return fmt.Errorf("index the pack: %w: it builds upon objects that it does not hold", ErrCorrupt)
		}
	}
	slices.SortFunc(x.objects, func(a, b received) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(x.objects); i++ {
		if x.objects[i].offset == x.objects[i-1].offset {
			return fmt.Errorf("index the pack: %w: two objects in one place", ErrCorrupt)
		}
	}
	return nil
}

// children takes the deltas that build upon an object.
func (x *indexer) children(o *received) []int {
	all := append(x.byBase[o.offset], x.byRef[o.id]...)
	delete(x.byBase, o.offset)
	delete(x.byRef, o.id)
	return all
}

// family resolves everything that builds upon a whole object, depth first, so that only one line of ancestors is in
// memory; content goes as soon as its last child is reached.
func (x *indexer) family(root int) error {
	type level struct {
		data     []byte
		children []int
	}
	typ := x.objects[root].typ
	data, err := x.content(root)
	if err != nil {
		return err
	}
	stack := []level{{data, x.children(&x.objects[root])}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.children) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		i := top.children[0]
		if top.children = top.children[1:]; len(stack) > maxChain {
			return fmt.Errorf("index the pack: %w: a chain of too many deltas", ErrCorrupt)
		}
		base := top.data
		if len(top.children) == 0 {
			top.data = nil
		}
		delta, err := x.content(i)
		if err != nil {
			return err
		}
		result, err := patch(base, delta)
		if err != nil {
			return fmt.Errorf("index the pack: %w", err)
		}
		o := &x.objects[i]
		if o.id, o.done = plumbing.ComputeHash(typ, result), true; typ != Blob && x.in.Check != nil {
			if err := x.in.Check(typ, result); err != nil {
				return err
			}
		}
		x.done++
		if err := x.ctx.Err(); err != nil {
			return context.Cause(x.ctx)
		}
		if children := x.children(o); len(children) > 0 {
			stack = append(stack, level{result, children})
		}
	}
	return nil
}

// content inflates what an entry holds: an object or a delta.
func (x *indexer) content(i int) ([]byte, error) {
	h, err := x.inflater.at(x.file, x.objects[i].offset)
	if err != nil {
		return nil, err
	}
	return x.inflater.content(h.size)
}

// countingReader counts the bytes that a decompressor takes.
type countingReader struct {
	r *bufio.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}
