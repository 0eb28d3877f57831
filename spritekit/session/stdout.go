package session

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// stdout is where a call writes its events and its result. The last line that can be a result is held back, to become
// the call's last line. It is written to by one goroutine at a time.
type stdout struct {
	call   *call
	ours   bool // whole lines of our own runtime: events, the result, or events and the result
	part   []byte
	cut    bool             // the line at hand is longer than a reader takes
	long   bool             // so was the last that is no event
	said   *protocol.Result // the last result of a program of others
	late   bool             // other lines followed it
	result []byte           // and before it, of our own runtime, the events that came together with it
}

func (o *stdout) Write(b []byte) (int, error) {
	if o.ours {
		lines := bytes.TrimSuffix(b, []byte("\n"))
		if last := lines[bytes.LastIndexByte(lines, '\n')+1:]; bytes.HasPrefix(last, []byte(protocol.Prefix)) {
			_ = o.call.server.out.addLine(false, lines) // kept in err; the call continues without a reader
			return len(b), nil
		}
		o.result = bytes.Clone(lines)
		return len(b), nil
	}
	n := len(b)
	for {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if !o.cut {
			o.part = append(o.part, line...)
		}
		if len(o.part) > protocol.MaxLine {
			o.part, o.cut = o.part[:protocol.MaxLine], true
		}
		if !found {
			return n, nil
		}
		o.handleLine(bytes.TrimSuffix(o.part, []byte("\r")))
		o.part, o.cut, b = o.part[:0], false, rest
	}
}

// endOutput takes a last line without its end, and makes the result of the call from the output of a third-party program.
func (o *stdout) endOutput() {
	if len(o.part) > 0 {
		o.handleLine(o.part)
	}
	if o.part = nil; o.said == nil {
		return
	}
	if o.late {
		o.said.Warnings = append(o.said.Warnings, protocol.OutputAfterResult())
	}
	o.result = o.withID(*o.said)
}

// handleLine takes one line of a third-party program. Events that name this call become lines of the session; other lines are
// passed on as output of this call.
func (o *stdout) handleLine(line []byte) {
	if body, ok := bytes.CutPrefix(line, []byte(protocol.Prefix)); ok {
		if e, problems, ok := protocol.Decode(body); ok && len(problems) == 0 && !e.Legacy && e.CallID == o.call.CallID {
			_ = o.call.server.out.addLine(false, line) // kept in err
			return
		}
	} else if r, ok := protocol.DecodeResult(line); ok {
		o.said, o.late = &r, false
		return
	} else if len(bytes.TrimSpace(line)) > 0 {
		o.long, o.late = o.cut, o.said != nil
	}
	said := strings.ToValidUTF8(string(line), "\uFFFD")
	o.call.server.out.writeJSON(false, protocol.SessionOutput{CallID: o.call.CallID, Stdout: &said})
}

// withID is a program's result as the result of this call. One that no reader would take is replaced by a failure.
func (o *stdout) withID(r protocol.Result) []byte {
	r.CallID = o.call.CallID
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	const ending = 1 << 10 // the members that a session adds
	if err := e.Encode(r); err != nil || b.Len() > protocol.MaxLine-ending {
		return o.call.newFailure("result_too_large", "the result line is longer than a reader takes", "put the bulk into a file and name the file")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
