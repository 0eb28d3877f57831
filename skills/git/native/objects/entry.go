package objects

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"math"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	ofsDelta = plumbing.OFSDeltaObject
	refDelta = plumbing.REFDeltaObject
	// maxChain is the most deltas that git puts upon each other.
	maxChain = 4095
)

// place is where an entry lies.
type place struct {
	pack   *pack
	offset int64
}

// inflater reads entries of packs, one after the other, and keeps its buffers from one to the next.
type inflater struct {
	r *bufio.Reader
	z io.ReadCloser
}

// at positions it upon an entry and reads the header.
func (f *inflater) at(file io.ReaderAt, offset int64) (header, error) {
	section := io.NewSectionReader(file, offset, math.MaxInt64-offset)
	if f.r == nil {
		f.r = bufio.NewReader(section)
	} else {
		f.r.Reset(section)
	}
	return readHeader(f.r, offset)
}

// open begins to inflate what from holds.
func (f *inflater) open(from io.Reader) error {
	var err error
	if f.z == nil {
		f.z, err = zlib.NewReader(from)
	} else {
		err = f.z.(zlib.Resetter).Reset(from, nil)
	}
	if err != nil {
		f.z = nil
		return errors.Join(ErrCorrupt, err)
	}
	return nil
}

// content returns what follows the header that was read.
func (f *inflater) content(size int64) ([]byte, error) {
	if size > MaxInMemory {
		return nil, ErrTooLarge
	}
	if err := f.open(f.r); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(int(min(size, 1<<20)) + bytes.MinRead) // the size is a stranger's word
	n, err := io.Copy(&b, io.LimitReader(f.z, size+1))
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err)
	}
	if n != size {
		return nil, ErrCorrupt
	}
	return b.Bytes(), nil
}

// skip reads over what follows the header to its very end, checksum included, and tells how long it is compressed.
func (f *inflater) skip(size int64) (int64, error) {
	counter := &countingReader{r: f.r}
	if err := f.open(counter); err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(f.z, size+1))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, errors.Join(ErrCorrupt, err)
	}
	return counter.n, nil
}

// entry puts an object together: its deltas are collected until a whole object is met, and then applied.
func (s *Store) entry(p *pack, offset int64) (Type, []byte, error) {
	type delta struct {
		place
		data []byte
	}
	var deltas []delta
	var typ Type
	var data []byte
	for here := (place{p, offset}); ; {
		if known, ok := s.bases.get(here); ok {
			typ, data = known.typ, known.data
			break
		}
		h, err := s.inflater.at(here.pack.file, here.offset)
		if err != nil {
			return 0, nil, err
		}
		content, err := s.inflater.content(h.size)
		if err != nil {
			return 0, nil, err
		}
		if h.typ != ofsDelta && h.typ != refDelta {
			typ, data = h.typ, content
			if len(deltas) > 0 {
				s.bases.put(here, typ, data)
			}
			break
		}
		if len(deltas) == maxChain {
			return 0, nil, ErrCorrupt
		}
		deltas = append(deltas, delta{here, content})
		if h.typ == ofsDelta {
			here.offset = h.base
			continue
		}
		base, offset, err := s.packed(h.ref)
		if err != nil {
			return 0, nil, err
		}
		if base == nil { // git packs are closed; a loose base is for thin packs on the wire
			return 0, nil, ErrCorrupt
		}
		here = place{base, offset}
	}
	for i := len(deltas) - 1; i >= 0; i-- {
		var err error
		if data, err = patch(data, deltas[i].data); err != nil {
			return 0, nil, err
		}
		if i > 0 {
			s.bases.put(deltas[i].place, typ, data)
		}
	}
	return typ, data, nil
}

// patch applies a delta whose result must fit into memory.
func patch(base, delta []byte) ([]byte, error) {
	size := int64(0)
	for field, i := 0, 0; field < 2; field++ { // of the base, of the result
		size = 0
		for shift := 0; ; shift += 7 {
			if i == len(delta) || shift > 55 {
				return nil, ErrCorrupt
			}
			c := delta[i]
			i++
			size |= int64(c&0x7f) << shift
			if c&0x80 == 0 {
				break
			}
		}
	}
	if size > MaxInMemory {
		return nil, ErrTooLarge
	}
	data, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err)
	}
	if int64(len(data)) != size {
		return nil, ErrCorrupt
	}
	return data, nil
}

// entryType follows deltas to the type of what they change.
func (s *Store) entryType(p *pack, offset int64) (Type, error) {
	for range maxChain {
		h, err := s.inflater.at(p.file, offset)
		if err != nil {
			return 0, err
		}
		switch h.typ {
		case ofsDelta:
			offset = h.base
		case refDelta:
			base, at, err := s.packed(h.ref)
			if err != nil || base == nil {
				return 0, errors.Join(ErrCorrupt, err)
			}
			p, offset = base, at
		default:
			return h.typ, nil
		}
	}
	return 0, ErrCorrupt
}

// streamed is from where on content is not taken into memory, in bytes.
const streamed = 1 << 20

// stream opens the content of an entry.
func (s *Store) stream(p *pack, offset int64) (Type, int64, io.ReadCloser, error) {
	h, err := s.inflater.at(p.file, offset)
	if err != nil {
		return 0, 0, nil, err
	}
	if h.typ == ofsDelta || h.typ == refDelta || h.size < streamed {
		typ, data, err := s.entry(p, offset)
		return typ, int64(len(data)), io.NopCloser(bytes.NewReader(data)), err
	}
	f := new(inflater) // its own: others are read while this one is open
	if _, err := f.at(p.file, offset); err != nil {
		return 0, 0, nil, err
	}
	if err := f.open(f.r); err != nil {
		return 0, 0, nil, err
	}
	return h.typ, h.size, exactly{f.z, &io.LimitedReader{R: f.z, N: h.size}}, nil
}

// maxBases is how many bytes of objects are kept because deltas build upon them.
const maxBases = 16 << 20

// baseCache keeps objects that others build upon; the oldest leave first.
type baseCache struct {
	at    map[place]known
	order []place
	bytes int
}

type known struct {
	typ  Type
	data []byte
}

func newBaseCache() *baseCache { return &baseCache{at: map[place]known{}} }

func (c *baseCache) get(p place) (known, bool) {
	k, ok := c.at[p]
	return k, ok
}

func (c *baseCache) put(p place, typ Type, data []byte) {
	if _, ok := c.at[p]; ok || len(data) > maxBases/4 {
		return
	}
	c.at[p] = known{typ, data}
	c.order = append(c.order, p)
	for c.bytes += len(data); c.bytes > maxBases; c.order = c.order[1:] {
		c.bytes -= len(c.at[c.order[0]].data)
		delete(c.at, c.order[0])
	}
}
