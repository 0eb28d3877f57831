// Package progress interprets the progress streams of the Sprites API: NDJSON whose lines report the progress and the outcome
// of an operation. Start with [Stream]. It takes lines of any origin and never fails on one that it does not know; a stream that
// ends too early is [ErrCut], never a success.
package progress

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
)

// ErrCut says that a stream ended before its operation was complete. The outcome of the operation is not known.
var ErrCut = errors.New("the answer ended before the operation was complete")

// Failure is the failure that a stream reported.
type Failure struct{ Message string }

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Outcome is the result that the lines of a whole stream report.
type Outcome struct {
	ID   string // of the checkpoint that they name
	Exit *int   // exit code of the session that they are about
}

// proseID finds the id in the text of servers that send no structured one.
var proseID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bv\d+\b`) })

// Stream collects the lines of one stream. The zero value is ready for the first line.
type Stream struct {
	id, prose string
	exit      *int
	failure   error
	complete  bool
	torn      bool // the last line was not JSON
}

// Failed reports whether a line reported a failure.
func (p *Stream) Failed() bool { return p.failure != nil }

// Take interprets one line. It ignores unknown kinds and members.
func (p *Stream) Take(line []byte) {
	var in map[string]json.RawMessage
	if p.torn = !json.Valid(line); p.torn || json.Unmarshal(line, &in) != nil {
		return
	}
	kind, data, id := decodeString(in["type"]), decodeString(in["data"]), decodeString(in["checkpoint_id"])
	// An error object in place of a line is an error, too.
	if kind == "error" || kind == "" && len(in["error"]) > 0 {
		if p.failure == nil {
			p.failure = newFailure(in["error"], data, decodeString(in["message"]))
		}
		return
	}
	p.complete = p.complete || kind == "complete"
	var code *int
	if json.Unmarshal(in["exit_code"], &code) == nil && code != nil {
		p.exit = code
	}
	if id != "" {
		p.id = id
	} else if found := proseID().FindString(data); found != "" {
		p.prose = found
	}
}

// End returns the outcome after the last line. The error is a [*Failure] or [ErrCut].
func (p *Stream) End() (Outcome, error) {
	switch {
	case p.failure != nil:
		return Outcome{}, p.failure
	case !p.complete || p.torn:
		return Outcome{}, ErrCut
	}
	return Outcome{ID: cmp.Or(p.id, p.prose), Exit: p.exit}, nil
}

// decodeString decodes a JSON string; anything else is "".
func decodeString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func newFailure(raw json.RawMessage, data, message string) *Failure {
	for _, text := range []string{message, decodeString(raw), data, string(raw)} {
		if text = strings.TrimSpace(text); text != "" {
			return &Failure{text}
		}
	}
	return &Failure{"the server gave no reason"}
}
