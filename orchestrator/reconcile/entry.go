package reconcile

import (
	"bytes"
	"cmp"
	"encoding/binary"
)

// entry stands for one event.
type entry struct {
	key   [16]byte // of its dedupe key's sha256: 2⁶⁴ events would have to be tried to make two meet
	index int64    // among the events of its source
	sec   int64    // its instant, or that of the event before it
	nsec  int32
	size  int32 // of its text
	at    int64 // place of its text
	seen  uint8 // inOutbox, inStream or both
	hasID bool  // an event_id identifies it: copies are the same event
}

const (
	inOutbox = 1 << iota
	inStream
)

func (e entry) sourceOf() Source {
	switch e.seen {
	case inOutbox:
		return SourceOutbox
	case inStream:
		return SourceStream
	}
	return SourceBoth
}

func byKey(a, b entry) int {
	return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.index, b.index))
}

// byTime orders entries by time, then those of the outbox before those of the stream alone.
func byTime(a, b entry) int {
	return cmp.Or(cmp.Compare(a.sec, b.sec), cmp.Compare(a.nsec, b.nsec),
		cmp.Compare(b.seen&inOutbox, a.seen&inOutbox), cmp.Compare(a.index, b.index))
}

// entrySize is the length of an entry in a file.
const entrySize = 16 + 8 + 8 + 4 + 4 + 8 + 1 + 1

func (e entry) append(out []byte) []byte {
	out = append(out, e.key[:]...)
	out = binary.LittleEndian.AppendUint64(out, uint64(e.index))
	out = binary.LittleEndian.AppendUint64(out, uint64(e.sec))
	out = binary.LittleEndian.AppendUint32(out, uint32(e.nsec))
	out = binary.LittleEndian.AppendUint32(out, uint32(e.size))
	out = binary.LittleEndian.AppendUint64(out, uint64(e.at))
	out = append(out, e.seen, 0)
	if e.hasID {
		out[len(out)-1] = 1
	}
	return out
}

func readEntry(b []byte) entry {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
	return entry{
		key: [16]byte(b), index: int64(word(16)), sec: int64(word(24)),
		nsec: int32(binary.LittleEndian.Uint32(b[32:])), size: int32(binary.LittleEndian.Uint32(b[36:])),
		at: int64(word(40)), seen: b[48], hasID: b[49] == 1,
	}
}
