package index

import (
	"crypto/sha1"
	"encoding/binary"
)

// Encode is the index as a file. Version 2 becomes 3 when an entry needs it, and 3 becomes 2 when none does.
func (x *Index) Encode() []byte {
	version := x.version()
	b := make([]byte, 0, headerSize+len(x.Entries)*96+20)
	b = append(b, "DIRC"...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(x.Entries)))
	last := ""
	for i := range x.Entries {
		b = x.Entries[i].append(b, version, last)
		last = x.Entries[i].Path
	}
	if tree := x.tree.encode(); tree != nil {
		b = append(b, "TREE"...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(tree)))
		b = append(b, tree...)
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

func (x *Index) version() uint32 {
	if x.Version == 4 {
		return 4
	}
	for i := range x.Entries {
		if x.Entries[i].extended() {
			return 3
		}
	}
	return 2
}

func (e *Entry) extended() bool { return e.SkipWorktree || e.IntentToAdd }

func (e *Entry) append(b []byte, version uint32, last string) []byte {
	start := len(b)
	s := &e.Stat
	for _, v := range [...]uint32{s.CTime, s.CTimeNano, s.MTime, s.MTimeNano, s.Dev, s.Ino, e.Mode, s.UID, s.GID, s.Size} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, e.ID[:]...)
	flags := uint16(min(len(e.Path), flagLength)) | uint16(e.Stage)<<12
	if e.AssumeValid {
		flags |= flagAssumeValid
	}
	if e.extended() {
		flags |= flagExtended
	}
	b = binary.BigEndian.AppendUint16(b, flags)
	if e.extended() {
		more := uint16(0)
		if e.SkipWorktree {
			more |= extendedSkip
		}
		if e.IntentToAdd {
			more |= extendedIntent
		}
		b = binary.BigEndian.AppendUint16(b, more)
	}
	if version == 4 {
		common := 0
		for common < len(last) && common < len(e.Path) && last[common] == e.Path[common] {
			common++
		}
		b = appendVarint(b, len(last)-common)
		return append(append(b, e.Path[common:]...), 0)
	}
	b = append(b, e.Path...)
	pad := 8 - (len(b)-start)&7 // one to eight
	return append(b, make([]byte, pad)...)
}

// appendVarint writes the variable-width number that varint reads.
func appendVarint(b []byte, value int) []byte {
	var buf [10]byte
	i := len(buf) - 1
	buf[i] = byte(value & 0x7f)
	for value >>= 7; value > 0; value >>= 7 {
		value--
		i--
		buf[i] = byte(value&0x7f) | 0x80
	}
	return append(b, buf[i:]...)
}
