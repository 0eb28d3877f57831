package files

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// Entries travel from a sandbox to its host as records: a kind, and of an entry its mode, size, time and name. Names are at
// most maxName bytes. The last record is the end: a stream without it was cut off.
const (
	recordEnd   = 0
	recordEntry = 1
	recordTick  = 2

	headSize = 4 + 8 + 8 + 2
	maxName  = 8 << 10
)

// Encoder writes entries. Flush must be called at the end.
type Encoder struct{ w *bufio.Writer }

// NewEncoder writes to w.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{bufio.NewWriterSize(w, 32<<10)} }

// Entry is an Emit.
func (e *Encoder) Entry(x Entry) error {
	if x.Tick {
		return errors.Join(e.w.WriteByte(recordTick), e.w.Flush()) // it is to be noticed whether anybody listens
	}
	if len(x.Rel) > maxName {
		return nil // nothing could be asked about it
	}
	var head [1 + headSize]byte
	head[0] = recordEntry
	binary.LittleEndian.PutUint32(head[1:], uint32(x.Mode))
	binary.LittleEndian.PutUint64(head[5:], uint64(x.Size))
	binary.LittleEndian.PutUint64(head[13:], uint64(x.ModTime.UnixNano()))
	binary.LittleEndian.PutUint16(head[21:], uint16(len(x.Rel)))
	if _, err := e.w.Write(head[:]); err != nil {
		return err
	}
	_, err := e.w.WriteString(x.Rel)
	return err
}

// End says that nothing follows.
func (e *Encoder) End() error { return errors.Join(e.w.WriteByte(recordEnd), e.w.Flush()) }

// ErrCut says that a stream of entries ended before its end.
var ErrCut = errors.New("the list of files was cut off")

// Decode passes the entries of a stream to emit until its end. The writer of the stream is not trusted: each entry is bounded
// in size, and emit can limit their number.
func Decode(r io.Reader, emit Emit) error {
	in := bufio.NewReaderSize(r, 32<<10)
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCut, err)
		}
		switch kind {
		case recordEnd:
			return nil
		case recordTick:
			continue
		case recordEntry:
		default:
			return fmt.Errorf("%w: record of kind %d", ErrCut, kind)
		}
		x, err := decodeEntry(in)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCut, err)
		}
		if err := emit(x); err != nil {
			return err
		}
	}
}

func decodeEntry(in *bufio.Reader) (Entry, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return Entry{}, err
	}
	length := binary.LittleEndian.Uint16(head[20:])
	if length > maxName {
		return Entry{}, fmt.Errorf("a name of %d bytes", length)
	}
	name := make([]byte, length)
	if _, err := io.ReadFull(in, name); err != nil {
		return Entry{}, err
	}
	return Entry{
		Rel:     string(name),
		Mode:    fs.FileMode(binary.LittleEndian.Uint32(head[0:])),
		Size:    int64(binary.LittleEndian.Uint64(head[4:])),
		ModTime: time.Unix(0, int64(binary.LittleEndian.Uint64(head[12:]))),
	}, nil
}
