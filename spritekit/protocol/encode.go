package protocol

import (
	"fmt"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// Encode checks e against every writer's rule and returns its one line of JSON, without prefix and newline. An empty
// ProtocolVersion is written as v1. Sprite and work item may be empty, because the emitter may not know them. The error
// names every rule that e breaks. Raw and Legacy are ignored: only readers set them.
func Encode(e Event) ([]byte, error) {
	payload, problems := e.checkEvent()
	if err := asError(problems); err != nil {
		return nil, fmt.Errorf("encode %.64s: %w", e.Type, err)
	}
	out := make([]byte, 0, len(payload)+300)
	out = append(out, `{"protocol_version":"`+Version+`","event_type":"`...)
	out = append(append(out, e.Type...), '"')
	if e.EventID != "" {
		out = appendText(out, "event_id", e.EventID)
	}
	if e.CallID != "" {
		out = appendText(out, "call_id", e.CallID)
	}
	out = appendText(out, "sprite_id", e.SpriteID)
	out = appendText(out, "work_item_id", e.WorkItemID)
	out = appendText(out, "timestamp", e.Timestamp)
	out = append(out, `,"payload":`...)
	out = append(append(out, payload...), '}')
	if len(Prefix)+len(out) > MaxLine {
		return nil, fmt.Errorf("encode %s: its line has %d bytes, but readers take %d; put the bulk into a file",
			e.Type, len(Prefix)+len(out), MaxLine)
	}
	return out, nil
}

func appendText(out []byte, name, value string) []byte {
	out = append(append(append(out, `,"`...), name...), `":`...)
	return quote.Append(out, []byte(value))
}

// checkEvent returns the compact payload and the writer's rules that e breaks.
func (e Event) checkEvent() (payload []byte, problems []Problem) {
	var r report
	if e.ProtocolVersion != "" && e.ProtocolVersion != Version {
		r.addProblem("/protocol_version", "must be "+Version)
	}
	if e.EventID != "" && !isULID(e.EventID) {
		r.addProblem("/event_id", "must be a ULID")
	}
	for _, m := range []struct{ name, value string }{
		{"call_id", e.CallID}, {"sprite_id", e.SpriteID}, {"work_item_id", e.WorkItemID},
	} {
		if !utf8.ValidString(m.value) {
			r.addProblem("/"+m.name, "must be UTF-8")
		}
	}
	if !isWriterTime(e.Timestamp) {
		r.addProblem("/timestamp", "must be UTC with nine fractional digits, such as "+timestampLayout)
	}
	if !e.Type.Known() {
		r.addProblem("/event_type", "is not one of the nine types of "+Version)
		return nil, r.problems
	}
	payload, err := compactJSON(e.Payload)
	switch {
	case len(e.Payload) == 0:
		r.addProblem("/payload", "is required")
	case err != nil:
		r.addProblem("/payload", "is not JSON: "+err.Error())
	case !utf8.Valid(e.Payload):
		r.addProblem("/payload", "must be UTF-8")
	default:
		openPayload(e.Type, payload, &r)
	}
	return payload, r.problems
}

// isULID reports whether s is 26 characters of Crockford's base 32 that fit 128 bits.
func isULID(s string) bool {
	if len(s) != 26 || s[0] > '7' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c):
		case 'A' <= c && c <= 'Z' && c != 'I' && c != 'L' && c != 'O' && c != 'U':
		default:
			return false
		}
	}
	return true
}
