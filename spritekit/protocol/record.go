package protocol

import (
	"fmt"
	"strconv"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// Kind is the kind of a Record.
type Kind string

const (
	KindEvent   Kind = "event"
	KindOutput  Kind = "output"
	KindWarning Kind = "warning"
)

// Codes of warnings.
const (
	// WarnNoEvent follows the output record of a line that has the prefix but does not contain an event.
	WarnNoEvent = "no_event"
	// WarnLineCut follows the output record of a line longer than MaxLine, when that line has ended.
	WarnLineCut = "line_cut"
)

// Record is an event, an output line or a warning of a raw exec stdout stream or an outbox.
type Record struct {
	Kind     Kind
	Event    Event     // KindEvent
	Problems []Problem // KindEvent
	Text     string    // KindOutput, from Next: one line without its end, bad UTF-8 as U+FFFD
	Bytes    []byte    // KindOutput, from Read: the same line unchanged, valid until the next call
	Code     string    // KindWarning
	Line     int       // 1-based number of the line
	Detail   string    // KindWarning, for people
	Cut      *Cut      // KindWarning with WarnLineCut
}

// Cut describes a line longer than MaxLine, of which only the beginning was delivered.
type Cut struct {
	Offset int64  // of the line in the stream
	Size   int64  // of the line without its end
	SHA256 string // of the line without its end, in hex
}

func (c Cut) String() string {
	return fmt.Sprintf("a line of %d bytes, more than %d, was cut (offset %d, sha256 %s)", c.Size, MaxLine, c.Offset, c.SHA256)
}

// AppendJSON appends r to out as one compact JSON object, its members in this order:
//
//	{"kind":"event","event":{…},"legacy":false,"problems":[{"pointer":…,"message":…}]}
//	{"kind":"output","text":…}
//	{"kind":"warning","code":…,"line":N,"detail":…}
func (r Record) AppendJSON(out []byte) ([]byte, error) {
	switch r.Kind {
	case KindEvent:
		out = append(append(out, `{"kind":"event","event":`...), r.Event.Raw...)
		out = append(out, `,"legacy":`...)
		out = strconv.AppendBool(out, r.Event.Legacy)
		out = append(out, `,"problems":[`...)
		for i, p := range r.Problems {
			if i > 0 {
				out = append(out, ',')
			}
			out = quote.Append(append(out, `{"pointer":`...), []byte(p.Pointer))
			out = append(quote.Append(append(out, `,"message":`...), []byte(p.Message)), '}')
		}
		return append(out, "]}"...), nil
	case KindOutput:
		out = append(out, `{"kind":"output","text":`...)
		if r.Bytes != nil {
			out = quote.Append(out, r.Bytes)
		} else {
			out = quote.Append(out, []byte(r.Text))
		}
		return append(out, '}'), nil
	case KindWarning:
		out = quote.Append(append(out, `{"kind":"warning","code":`...), []byte(r.Code))
		out = strconv.AppendInt(append(out, `,"line":`...), int64(r.Line), 10)
		return append(quote.Append(append(out, `,"detail":`...), []byte(r.Detail)), '}'), nil
	}
	return nil, fmt.Errorf("write a record: unknown kind %q", r.Kind)
}
