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

// inflate returns what the compressed content behind a header comes to.
func inflate(from io.ByteReader, size int64) ([]byte, error) {
	if size > MaxInMemory {
		return nil, ErrTooLarge
	}
	z, err := zlib.NewReader(from.(io.Reader))
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err)
	}
	var b bytes.Buffer
	b.Grow(int(min(size, 1<<20))) // the size is a stranger's word
	n, err := io.Copy(&b, io.LimitReader(z, size+1))
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err)
	}
	if n != size {
		return nil, ErrCorrupt
	}
	return b.Bytes(), nil
}

// at positions a reader upon an entry.
func at(file io.ReaderAt, offset int64) (*bufio.Reader, header, error) {
	r := bufio.NewReader(io.NewSectionReader(file, offset, math.MaxInt64-offset))
	h, err := readHeader(r, offset)
	return r, h, err
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
		r, h, err := at(here.pack.file, here.offset)
		if err != nil {
			return 0, nil, err
		}
		content, err := inflate(r, h.size)
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
		_, h, err := at(p.file, offset)
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

// stream opens the content of an entry.
func (s *Store) stream(p *pack, offset int64) (Type, int64, io.ReadCloser, error) {
	r, h, err := at(p.file, offset)
	if err != nil {
		return 0, 0, nil, err
	}
	if h.typ == ofsDelta || h.typ == refDelta {
		typ, data, err := s.entry(p, offset)
		return typ, int64(len(data)), io.NopCloser(bytes.NewReader(data)), err
	}
	z, err := zlib.NewReader(r)
	if err != nil {
		return 0, 0, nil, errors.Join(ErrCorrupt, err)
	}
	return h.typ, h.size, exactly{z, &io.LimitedReader{R: z, N: h.size}}, nil
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
