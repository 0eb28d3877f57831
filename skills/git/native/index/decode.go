package index

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
)

// The flags of an entry.
const (
	flagAssumeValid = 1 << 15
	flagExtended    = 1 << 14
	flagStage       = 3 << 12
	flagLength      = 0xfff

	extendedSkip   = 1 << 14
	extendedIntent = 1 << 13
)

const (
	headerSize = 12
	fixedSize  = 62 // of an entry before its path
)

// Decode reads an index and checks its checksum. data may be changed afterwards.
func Decode(data []byte) (*Index, error) {
	if len(data) < headerSize+20 || string(data[:4]) != "DIRC" {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrCorrupt)
	}
	body, sum := data[:len(data)-20], data[len(data)-20:]
	// A sum of zeros is written where index.skipHash is set.
	if have := sha1.Sum(body); !bytes.Equal(have[:], sum) && !bytes.Equal(sum, make([]byte, 20)) {
		return nil, fmt.Errorf("%w: its checksum does not fit", ErrCorrupt)
	}
	x := &Index{Version: binary.BigEndian.Uint32(body[4:])}
	if x.Version < 2 || x.Version > 4 {
		return nil, fmt.Errorf("%w: version %d", ErrUnsupported, x.Version)
	}
	count := int(binary.BigEndian.Uint32(body[8:]))
	if count > len(body)/(fixedSize+1) {
		return nil, fmt.Errorf("%w: it is too short for %d entries", ErrCorrupt, count)
	}
	d := &decoder{rest: body[headerSize:], version: x.Version}
	x.Entries = make([]Entry, count)
	for i := range x.Entries {
		if err := d.entry(&x.Entries[i]); err != nil {
			return nil, err
		}
	}
	if err := d.extensions(x); err != nil {
		return nil, err
	}
	if err := x.check(); err != nil {
		return nil, err
	}
	return x, nil
}

// check refuses paths that no index holds and those that are out of order. Extensions come first: one that splits an
// index makes its paths mean something else.
func (x *Index) check() error {
	for i := range x.Entries {
		if err := checkPath(x.Entries[i].Path); err != nil {
			return err
		}
		if i > 0 && !less(&x.Entries[i-1], &x.Entries[i]) {
			return fmt.Errorf("%w: %q is out of order", ErrCorrupt, x.Entries[i].Path)
		}
	}
	return nil
}

type decoder struct {
	rest    []byte
	version uint32
	last    []byte // path of the entry before, in version 4
}

func short() error { return fmt.Errorf("%w: an entry is cut off", ErrCorrupt) }

func (d *decoder) entry(e *Entry) error {
	b := d.rest
	if len(b) < fixedSize {
		return short()
	}
	u32 := func(i int) uint32 { return binary.BigEndian.Uint32(b[i:]) }
	e.Stat = Stat{
		CTime: u32(0), CTimeNano: u32(4), MTime: u32(8), MTimeNano: u32(12),
		Dev: u32(16), Ino: u32(20), UID: u32(28), GID: u32(32), Size: u32(36),
	}
	e.Mode = u32(24)
	e.ID = ID(b[40:60])
	flags := binary.BigEndian.Uint16(b[60:])
	e.Stage = int(flags & flagStage >> 12)
	e.AssumeValid = flags&flagAssumeValid != 0
	at := fixedSize
	if flags&flagExtended != 0 {
		if d.version < 3 || len(b) < at+2 {
			return short()
		}
		more := binary.BigEndian.Uint16(b[at:])
		if more&^(extendedSkip|extendedIntent) != 0 {
			return fmt.Errorf("%w: unknown flags %x", ErrUnsupported, more)
		}
		e.SkipWorktree, e.IntentToAdd = more&extendedSkip != 0, more&extendedIntent != 0
		at += 2
	}
	var size int
	var err error
	if d.version == 4 {
		size, err = d.compressed(e, at)
	} else {
		size, err = d.plain(e, at, int(flags&flagLength))
	}
	if err != nil {
		return err
	}
	d.rest = b[size:]
	return nil
}

// plain reads a path that is padded to a multiple of eight bytes.
func (d *decoder) plain(e *Entry, at, length int) (int, error) {
	end := bytes.IndexByte(d.rest[at:], 0)
	if end < 0 || length < flagLength && end != length {
		return 0, short()
	}
	e.Path = string(d.rest[at : at+end])
	size := (at + end + 8) &^ 7
	if size > len(d.rest) {
		return 0, short()
	}
	return size, nil
}

// compressed reads a path that says how much of the one before it keeps.
func (d *decoder) compressed(e *Entry, at int) (int, error) {
	cut, n := varint(d.rest[at:])
	if n == 0 || cut > len(d.last) {
		return 0, short()
	}
	at += n
	end := bytes.IndexByte(d.rest[at:], 0)
	if end < 0 {
		return 0, short()
	}
	d.last = append(d.last[:len(d.last)-cut], d.rest[at:at+end]...)
	e.Path = string(d.last)
	return at + end + 1, nil
}

// varint reads the variable-width number of version 4 and says how long it is, 0 if it is none.
func varint(b []byte) (value, size int) {
	for i, c := range b {
		if i > 4 {
			return 0, 0
		}
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, i + 1
		}
		value++
	}
	return 0, 0
}

// extensions reads what follows the entries. Names in capitals are optional.
func (d *decoder) extensions(x *Index) error {
	for len(d.rest) > 0 {
		if len(d.rest) < 8 {
			return fmt.Errorf("%w: an extension is cut off", ErrCorrupt)
		}
		name, size := string(d.rest[:4]), uint64(binary.BigEndian.Uint32(d.rest[4:]))
		if size > uint64(len(d.rest)-8) {
			return fmt.Errorf("%w: an extension is cut off", ErrCorrupt)
		}
		content := d.rest[8 : 8+size]
		d.rest = d.rest[8+size:]
		switch {
		case name == "TREE":
			x.tree = decodeCacheTree(content, len(x.Entries))
		case name[0] < 'A' || name[0] > 'Z':
			return fmt.Errorf("%w: the extension %q", ErrUnsupported, name)
		}
	}
	return nil
}
