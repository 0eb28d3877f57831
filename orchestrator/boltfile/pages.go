package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// This file reads bbolt's pages by itself. bbolt maps the file into memory and believes it: a page that points behind
// the end, or back to its parent, ends the process. So a file is looked at before bbolt gets it: on opening only what
// leads to pages (one page in a hundred), for a check all of it.
//
// A page is a header (id u64, flags u16, count u16, overflow u32), then count elements of 16 bytes, then what they
// point to, relative to themselves. Numbers are in the machine's byte order.
//
//	branch element  pos u32, ksize u32, child u64
//	leaf element    flags u32, pos u32, ksize u32, vsize u32; the value of a bucket is its root u64 and sequence u64
//	meta            magic, version, page size, flags u32; root, sequence, freelist, high water, txid, checksum u64

const (
	pageHeader  = 16
	pageElement = 16
	bucketValue = 16
	metaSize    = 64

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf element

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	noFreelist  = ^uint64(0)

	maxDepth = 32
)

// pageReader walks a file's pages.
type pageReader struct {
	file     io.ReaderAt
	pageSize uint64
	high     uint64 // pages of the file, the rest is slack
	layout   Layout
	deep     bool   // read every page
	lost     bool   // report pages that are lost, too, which does no harm
	used     []bool // by page
	report   func(format string, args ...any)
	progress Progress
	seen     uint64
	visit    func(buckets []string, key, value []byte) // nil value: a bucket; may be nil
	buckets  []string                                  // that lead to the page at hand
}

// walkPages reports everything that is wrong with the pages of a file of this size. It fails when the file cannot be
// read. Without deep, leaves are not read.
func walkPages(file io.ReaderAt, size int64, layout Layout, deep bool, progress Progress, report func(format string, args ...any)) error {
	r := &pageReader{file: file, layout: layout, deep: deep || layout > Flat, lost: deep, report: report, progress: progress}
	m, err := r.newestMeta(size)
	if err != nil || m == nil {
		return err
	}
	r.pageSize, r.high = uint64(m.pageSize), m.high
	switch pages := uint64(size) / r.pageSize; {
	case r.high < 4 || r.high > pages:
		report("the file holds %d pages of %d: it was cut off", pages, r.high)
		return nil
	case m.freelist != noFreelist && (m.freelist < 2 || m.freelist >= r.high):
		report("the list of free pages is said to be page %d of %d", m.freelist, r.high)
		return nil
	}
	if err := r.otherMeta(m); err != nil {
		return err
	}
	r.used = make([]bool, r.high)
	r.used[0], r.used[1] = true, true
	if err := r.checkBucket(m.root, 0); err != nil {
		return err
	}
	if m.freelist == noFreelist {
		return nil
	}
	return r.checkFreelist(m.freelist)
}

// Salvage calls visit for each bucket, with a nil value, and each value that can be read of a file that may be damaged, and
// reports damage. It reads pages that are in use alone: deleted values do not come back. The values are not verified: the
// caller opens their seals.
func Salvage(f *os.File, layout Layout, visit func(buckets []string, key, value []byte), report func(format string, args ...any)) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := &pageReader{file: f, layout: layout, deep: true, report: report, visit: visit}
	m, err := r.newestMeta(info.Size())
	if err != nil || m == nil {
		return err
	}
	r.pageSize = uint64(m.pageSize)
	r.high = min(m.high, uint64(info.Size())/r.pageSize)
	r.used = make([]bool, r.high)
	if m.freelist != noFreelist { // first, so that no free page is read
		if err := r.checkFreelist(m.freelist); err != nil {
			return err
		}
	}
	return r.checkBucket(m.root, 0)
}

// otherMeta reports, when all is looked at, that one of the two meta pages is damaged. The state with which bbolt goes on then is
// whole, but may lack the last commit.
func (r *pageReader) otherMeta(newest *meta) error {
	for _, offset := range []int64{0, int64(newest.pageSize)} {
		raw := make([]byte, pageHeader+metaSize)
		if _, err := r.file.ReadAt(raw, offset); err != nil {
			return fmt.Errorf("read page: %w", err)
		}
		if _, ok := decodeMeta(raw[pageHeader:]); !ok && r.deep {
			r.report("the meta page at %d is damaged: the last commit may be missing", offset)
		}
	}
	return nil
}

type meta struct {
	pageSize             uint32
	root, freelist, high uint64
	txid                 uint64
}

// newestMeta finds the newer of the two meta pages that are whole. Their distance is the page size, which only they
// tell.
func (r *pageReader) newestMeta(size int64) (*meta, error) {
	var newest *meta
	offsets := []int64{0}
	for s := int64(1 << 10); s <= 1<<24; s <<= 1 {
		offsets = append(offsets, s)
	}
	for _, offset := range offsets {
		raw := make([]byte, pageHeader+metaSize)
		if offset+int64(len(raw)) > size {
			break
		}
		if _, err := r.file.ReadAt(raw, offset); err != nil {
			return nil, fmt.Errorf("read page: %w", err)
		}
		m, ok := decodeMeta(raw[pageHeader:])
		if ok && (offset == 0 || offset == int64(m.pageSize)) && (newest == nil || m.txid > newest.txid) {
			newest = &m
		}
	}
	if newest == nil {
		r.report("both meta pages of the file are damaged: it is not a store, or its start was overwritten")
	}
	return newest, nil
}

func decodeMeta(raw []byte) (meta, bool) {
	n := binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(raw[:metaSize-8])
	m := meta{
		pageSize: n.Uint32(raw[8:]), root: n.Uint64(raw[16:]), freelist: n.Uint64(raw[32:]), high: n.Uint64(raw[40:]), txid: n.Uint64(raw[48:]),
	}
	whole := n.Uint32(raw) == metaMagic && n.Uint32(raw[4:]) == metaVersion && n.Uint64(raw[56:]) == sum.Sum64()
	return m, whole && m.pageSize >= 1<<10 && m.pageSize <= 1<<24 && m.pageSize&(m.pageSize-1) == 0
}

// page is a page with its overflow pages.
type page struct {
	id           uint64
	flags, count uint16
	data         []byte
}

// readPage takes a page that something refers to, and nothing else may. ok is false when it was reported.
func (r *pageReader) readPage(id uint64) (p page, ok bool, err error) {
	if !r.claimPages(id, 1) {
		return p, false, nil
	}
	header := make([]byte, pageHeader)
	if _, err := r.file.ReadAt(header, int64(id*r.pageSize)); err != nil {
		return p, false, fmt.Errorf("read page %d: %w", id, err)
	}
	n := binary.NativeEndian
	p = page{id: id, flags: n.Uint16(header[8:]), count: n.Uint16(header[10:])}
	overflow := uint64(n.Uint32(header[12:]))
	switch {
	case n.Uint64(header) != id:
		r.report("page %d says that it is page %d", id, n.Uint64(header))
		return p, false, nil
	case overflow >= r.high-id:
		r.report("page %d continues for %d pages, past the end of the file", id, overflow)
		return p, false, nil
	case !r.claimPages(id+1, overflow):
		return p, false, nil
	}
	p.data = make([]byte, (overflow+1)*r.pageSize)
	if _, err := r.file.ReadAt(p.data, int64(id*r.pageSize)); err != nil {
		return p, false, fmt.Errorf("read page %d: %w", id, err)
	}
	return p, true, nil
}

// claimPages marks pages as used, and reports those that are not there or used by another.
func (r *pageReader) claimPages(id, n uint64) bool {
	for ; n > 0; n, id = n-1, id+1 {
		if id < 2 || id >= r.high {
			r.report("something points to page %d of %d", id, r.high)
			return false
		}
		if r.used[id] {
			r.report("page %d is used twice", id)
			return false
		}
		r.used[id] = true
		r.seen++
		if r.seen%1024 == 0 {
			r.progress.report(r.seen, r.high)
		}
	}
	return true
}

// checkBucket walks the tree at root, of a bucket so deep inside others. All leaves of a tree are equally
// deep, so that the first tells which pages need not be read to find others.
func (r *pageReader) checkBucket(root uint64, level Layout) error {
	leaves := maxDepth
	if !r.deep && level > 0 {
		depth, err := r.leafDepth(root)
		if err != nil {
			return err
		}
		leaves = depth
	}
	return r.checkTree(root, 0, leaves, level)
}

// leafDepth follows the first children down to a leaf.
func (r *pageReader) leafDepth(id uint64) (int, error) {
	raw := make([]byte, pageHeader+pageElement)
	for depth := range maxDepth {
		if id < 2 || id >= r.high {
			return maxDepth, nil // the walk reports it
		}
		if _, err := r.file.ReadAt(raw, int64(id*r.pageSize)); err != nil {
			return 0, fmt.Errorf("read page %d: %w", id, err)
		}
		if binary.NativeEndian.Uint16(raw[8:]) != flagBranch {
			return depth, nil
		}
		id = binary.NativeEndian.Uint64(raw[pageHeader+8:])
	}
	return maxDepth, nil
}

func (r *pageReader) checkTree(id uint64, depth, leaves int, level Layout) error {
	if depth > maxDepth {
		r.report("page %d is too deep in its tree", id)
		return nil
	}
	if depth == leaves && depth > 0 {
		r.claimPages(id, 1)
		return nil
	}
	p, ok, err := r.readPage(id)
	if err != nil || !ok {
		return err
	}
	switch p.flags {
	case flagBranch:
		return r.checkBranch(p, depth, leaves, level)
	case flagLeaf:
		return r.checkLeaf(p, level)
	}
	r.report("page %d has the unknown kind %#x", id, p.flags)
	return nil
}

func (r *pageReader) checkBranch(p page, depth, leaves int, level Layout) error {
	if p.count == 0 {
		r.report("page %d leads nowhere", p.id)
	}
	var before []byte
	for i := range int(p.count) {
		e, ok := p.elementAt(i)
		if !ok {
			r.report("page %d does not hold its %d elements", p.id, p.count)
			return nil
		}
		n := binary.NativeEndian
		key, ok := p.elementData(i, n.Uint32(e), n.Uint32(e[4:]))
		if !ok || i > 0 && bytes.Compare(before, key) >= 0 {
			r.report("page %d: the key of element %d is out of place", p.id, i)
			return nil
		}
		before = key
		if err := r.checkTree(n.Uint64(e[8:]), depth+1, leaves, level); err != nil {
			return err
		}
	}
	return nil
}

func (r *pageReader) checkLeaf(p page, level Layout) error {
	var before []byte
	for i := range int(p.count) {
		e, ok := p.elementAt(i)
		if !ok {
			r.report("page %d does not hold its %d elements", p.id, p.count)
			return nil
		}
		n := binary.NativeEndian
		flags, pos, ksize, vsize := n.Uint32(e), n.Uint32(e[4:]), n.Uint32(e[8:]), n.Uint32(e[12:])
		key, ok := p.elementData(i, pos, ksize)
		value, whole := p.elementData(i, pos+ksize, vsize)
		if !ok || !whole || pos+ksize < pos || i > 0 && bytes.Compare(before, key) >= 0 {
			r.report("page %d: element %d is out of place", p.id, i)
			return nil
		}
		before = key
		switch {
		case flags == 0:
			if r.visit != nil {
				r.visit(r.buckets, key, value)
			}
		case flags != flagBucket || level >= r.layout || vsize < bucketValue:
			r.report("page %d: element %d is neither a record nor a bucket", p.id, i)
		default:
			if r.visit != nil {
				r.visit(r.buckets, key, nil)
			}
			r.buckets = append(r.buckets, string(key))
			if err := r.checkNested(p.id, value, level+1); err != nil {
				return err
			}
			r.buckets = r.buckets[:len(r.buckets)-1]
		}
	}
	return nil
}

// checkNested walks a bucket that a leaf holds: its tree, or the page within its value.
func (r *pageReader) checkNested(in uint64, value []byte, level Layout) error {
	root := binary.NativeEndian.Uint64(value)
	if root != 0 {
		return r.checkBucket(root, level)
	}
	inline := value[bucketValue:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint16(inline[8:]) != flagLeaf {
		r.report("page %d: a small bucket is damaged", in)
		return nil
	}
	return r.checkLeaf(page{id: in, flags: flagLeaf, count: binary.NativeEndian.Uint16(inline[10:]), data: inline}, level)
}

func (p page) elementAt(i int) ([]byte, bool) {
	at := pageHeader + i*pageElement
	if at+pageElement > len(p.data) {
		return nil, false
	}
	return p.data[at : at+pageElement], true
}

// elementData returns the data that element i points to.
func (p page) elementData(i int, pos, size uint32) ([]byte, bool) {
	from := uint64(pageHeader+i*pageElement) + uint64(pos)
	if from+uint64(size) > uint64(len(p.data)) {
		return nil, false
	}
	return p.data[from : from+uint64(size)], true
}

// checkFreelist checks the free pages against the used ones. A free page that is used would be overwritten.
func (r *pageReader) checkFreelist(id uint64) error {
	p, ok, err := r.readPage(id)
	if err != nil || !ok {
		return err
	}
	if p.flags != flagFreelist {
		r.report("page %d should list the free pages and has the kind %#x", id, p.flags)
		return nil
	}
	ids, count := p.data[pageHeader:], uint64(p.count)
	if count == 0xFFFF {
		count = binary.NativeEndian.Uint64(ids)
		ids = ids[8:]
	}
	if count > uint64(len(ids)/8) {
		r.report("page %d does not hold its %d free pages", id, count)
		return nil
	}
	for ; count > 0; count, ids = count-1, ids[8:] {
		r.claimPages(binary.NativeEndian.Uint64(ids), 1)
	}
	if !r.lost {
		return nil
	}
	for id, used := range r.used {
		if !used {
			r.report("page %d is neither used nor free", id)
		}
	}
	return nil
}
