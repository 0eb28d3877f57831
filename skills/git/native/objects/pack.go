package objects

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
)

// pack is one pack with its index. Neither is mapped into memory: a file that somebody cuts short under us must end in
// an error.
type pack struct {
	name   string // without extension
	idx    *os.File
	file   *os.File // opened when first needed
	fanout [256]uint32
	count  int64
	size   int64 // of the pack
	large  int64 // entries of the table of 64-bit offsets
	order  []entryAt
}

// entryAt says which position of the index an entry of the pack has.
type entryAt struct {
	offset   int64
	position int32
}

// The layout of an index of version 2.
const (
	idxHeader = 8
	idxNames  = idxHeader + 256*4
)

// list opens the indexes of all packs, once.
func (s *Store) list() error {
	if s.listed {
		return nil
	}
	s.listed = true
	for _, dir := range s.dirs {
		entries, err := os.ReadDir(filepath.Join(dir, "pack"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".idx")
			if !ok || !strings.HasPrefix(name, "pack-") {
				continue
			}
			p, err := openPack(filepath.Join(dir, "pack", name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // a repack was faster
			}
			if err != nil {
				return err
			}
			s.packs = append(s.packs, p)
		}
	}
	return nil
}

func openRegular(name string) (*os.File, int64, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no file", ErrHostile, name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func openPack(name string) (*pack, error) {
	idx, size, err := openRegular(name + ".idx")
	if err != nil {
		return nil, err
	}
	p := &pack{name: name, idx: idx}
	if err := p.readHeader(size); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s.idx: %w", filepath.Base(name), err), idx.Close())
	}
	return p, nil
}

func (p *pack) readHeader(size int64) error {
	var head [idxNames]byte
	if _, err := p.idx.ReadAt(head[:], 0); err != nil {
		return errors.Join(ErrCorrupt, err)
	}
	if string(head[:4]) != "\377tOc" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return fmt.Errorf("%w: an index of another version than 2", errors.ErrUnsupported)
	}
	last := uint32(0)
	for i := range p.fanout {
		p.fanout[i] = binary.BigEndian.Uint32(head[idxHeader+4*i:])
		if p.fanout[i] < last {
			return ErrCorrupt
		}
		last = p.fanout[i]
	}
	p.count = int64(last)
	rest := size - idxNames - p.count*(20+4+4) - 40
	if rest < 0 || rest%8 != 0 {
		return ErrCorrupt
	}
	p.large = rest / 8
	return nil
}

func (p *pack) close() error {
	err := p.idx.Close()
	if p.file != nil {
		err = errors.Join(err, p.file.Close())
	}
	return err
}

// open opens the pack itself.
func (p *pack) open() error {
	if p.file != nil {
		return nil
	}
	f, size, err := openRegular(p.name + ".pack")
	if err != nil {
		return err
	}
	p.file, p.size = f, size
	return nil
}

// packed finds the pack that holds an object, nil when none does. The pack that served last is asked first.
func (s *Store) packed(id ID) (*pack, int64, error) {
	if err := s.list(); err != nil {
		return nil, 0, err
	}
	for i, p := range s.packs {
		at, err := p.find(id)
		if err != nil {
			return nil, 0, fmt.Errorf("read %s.idx: %w", filepath.Base(p.name), err)
		}
		if at < 0 {
			continue
		}
		if err := p.open(); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, 0, err
		}
		offset, err := p.offset(at)
		if i > 0 {
			copy(s.packs[1:i+1], s.packs[:i])
			s.packs[0] = p
		}
		return p, offset, err
	}
	return nil, 0, nil
}

// window is how many names are read at once when the search has come near.
const window = 64

// find returns the position of an id in the index, -1 if it is not there.
func (p *pack) find(id ID) (int64, error) {
	at, ids, err := p.near(id[:])
	if err != nil {
		return -1, err
	}
	i := sort.Search(len(ids)/20, func(i int) bool { return bytes.Compare(ids[i*20:i*20+20], id[:]) >= 0 })
	if i < len(ids)/20 && bytes.Equal(ids[i*20:i*20+20], id[:]) {
		return at + int64(i), nil
	}
	return -1, nil
}

// near returns the names around where one would be, and the position of the first.
func (p *pack) near(id []byte) (int64, []byte, error) {
	lo, hi := int64(0), int64(p.fanout[id[0]])
	if id[0] > 0 {
		lo = int64(p.fanout[id[0]-1])
	}
	var name [20]byte
	for hi-lo > window {
		mid := (lo + hi) / 2
		if _, err := p.idx.ReadAt(name[:], idxNames+mid*20); err != nil {
			return 0, nil, errors.Join(ErrCorrupt, err)
		}
		if bytes.Compare(name[:], id) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	ids := make([]byte, (hi-lo)*20)
	if _, err := p.idx.ReadAt(ids, idxNames+lo*20); err != nil && len(ids) > 0 {
		return 0, nil, errors.Join(ErrCorrupt, err)
	}
	return lo, ids, nil
}

// withPrefix returns up to two ids that begin with these digits.
func (p *pack) withPrefix(digits string) ([]ID, error) {
	first, _ := ParseID(digits + strings.Repeat("0", 40-len(digits)))
	at, ids, err := p.near(first[:])
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(ids)/20, func(i int) bool { return bytes.Compare(ids[i*20:i*20+20], first[:]) >= 0 })
	var found []ID
	for at += int64(i); at < p.count && len(found) < 2; at++ {
		var id ID
		if _, err := p.idx.ReadAt(id[:], idxNames+at*20); err != nil {
			return nil, errors.Join(ErrCorrupt, err)
		}
		if !strings.HasPrefix(id.String(), digits) {
			break
		}
		found = append(found, id)
	}
	return found, nil
}

// offset returns where the entry at a position of the index lies in the pack.
func (p *pack) offset(at int64) (int64, error) {
	var b [8]byte
	table := idxNames + p.count*(20+4)
	if _, err := p.idx.ReadAt(b[:4], table+at*4); err != nil {
		return 0, errors.Join(ErrCorrupt, err)
	}
	small := binary.BigEndian.Uint32(b[:])
	offset := int64(small)
	if small&(1<<31) != 0 {
		i := int64(small &^ (1 << 31))
		if i >= p.large {
			return 0, ErrCorrupt
		}
		if _, err := p.idx.ReadAt(b[:], table+p.count*4+i*8); err != nil {
			return 0, errors.Join(ErrCorrupt, err)
		}
		offset = int64(binary.BigEndian.Uint64(b[:]))
	}
	if offset < 12 || offset > p.size-20 {
		return 0, ErrCorrupt
	}
	return offset, nil
}

// idAt names the entry at an offset. The first question sorts the whole index by offset.
func (p *pack) idAt(offset int64) (ID, error) {
	if p.order == nil {
		if err := p.sort(); err != nil {
			return ID{}, err
		}
	}
	i, ok := slices.BinarySearchFunc(p.order, offset, func(e entryAt, offset int64) int { return cmp.Compare(e.offset, offset) })
	if !ok {
		return ID{}, ErrCorrupt
	}
	var id ID
	_, err := p.idx.ReadAt(id[:], idxNames+int64(p.order[i].position)*20)
	return id, err
}

func (p *pack) sort() error {
	p.order = make([]entryAt, 0, p.count)
	table := bufio.NewReader(io.NewSectionReader(p.idx, idxNames+p.count*(20+4), p.count*4))
	var b [4]byte
	for i := range p.count {
		if _, err := io.ReadFull(table, b[:]); err != nil {
			return errors.Join(ErrCorrupt, err)
		}
		offset := int64(binary.BigEndian.Uint32(b[:]))
		if offset&(1<<31) != 0 {
			var err error
			if offset, err = p.offset(i); err != nil {
				return err
			}
		}
		p.order = append(p.order, entryAt{offset, int32(i)})
	}
	slices.SortFunc(p.order, func(a, b entryAt) int { return cmp.Compare(a.offset, b.offset) })
	return nil
}

// header is what stands before the compressed content of an entry.
type header struct {
	typ   Type
	size  int64
	start int64 // of the compressed content
	base  int64 // offset of the base of an OFS_DELTA
	ref   ID    // base of a REF_DELTA
}

// readHeader reads the header of the entry at an offset; r is positioned behind it.
func readHeader(r *bufio.Reader, offset int64) (header, error) {
	h := header{start: offset}
	next := func() (byte, error) {
		c, err := r.ReadByte()
		h.start++
		if err != nil {
			err = errors.Join(ErrCorrupt, err)
		}
		return c, err
	}
	c, err := next()
	if err != nil {
		return h, err
	}
	h.typ, h.size = Type(c>>4&7), int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = next(); err != nil {
			return h, err
		}
		if shift > 55 {
			return h, ErrCorrupt
		}
		h.size |= int64(c&0x7f) << shift
	}
	switch h.typ {
	case ofsDelta:
		if c, err = next(); err != nil {
			return h, err
		}
		back := int64(c & 0x7f)
		for c&0x80 != 0 {
			if c, err = next(); err != nil {
				return h, err
			}
			if back > 1<<48 {
				return h, ErrCorrupt
			}
			back = (back+1)<<7 | int64(c&0x7f)
		}
		if h.base = offset - back; back <= 0 || h.base < 12 {
			return h, ErrCorrupt
		}
	case refDelta:
		_, err = io.ReadFull(r, h.ref[:])
		h.start += 20
		if err != nil {
			return h, errors.Join(ErrCorrupt, err)
		}
	case Commit, Tree, Blob, Tag:
	default:
		return h, ErrCorrupt
	}
	return h, nil
}
