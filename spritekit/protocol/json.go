package protocol

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// The functions of this file work on JSON text that a jsonReader has checked; they do not check it again.

// stringLen returns the length of the quoted string at the start of b.
func stringLen(b []byte) int {
	for i := 1; ; i += 2 { // skip a backslash and the character that it escapes
		if i += quote.PlainLen(b[i:]); b[i] == '"' {
			return i + 1
		}
	}
}

// valueLen returns the length of the value at the start of b.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			i += stringLen(b[i:])
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':':
			i++
			continue
		default: // a number or a literal
			for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

// member is one member of an object. name is decoded, key and value are the text.
type member struct {
	name       string
	key, value []byte
}

// splitObject returns the members of an object, including duplicate keys.
func splitObject(object []byte, into []member) []member {
	for i := 1; object[i] != '}'; {
		if object[i] == ',' {
			i++
		}
		n := stringLen(object[i:])
		key := object[i : i+n : i+n]
		i += n + 1
		n = valueLen(object[i:])
		into = append(into, member{memberName(key), key, object[i : i+n : i+n]})
		i += n
	}
	return into
}

// splitArray returns the elements of an array.
func splitArray(array []byte) [][]byte {
	var out [][]byte
	for i := 1; array[i] != ']'; {
		if array[i] == ',' {
			i++
		}
		n := valueLen(array[i:])
		out = append(out, array[i:i+n:i+n])
		i += n
	}
	return out
}

// memberName decodes key. Names that the protocol defines are not allocated.
func memberName(key []byte) string {
	switch string(key[1 : len(key)-1]) {
	case "protocol_version":
		return "protocol_version"
	case "event_type":
		return "event_type"
	case "event_id":
		return "event_id"
	case "call_id":
		return "call_id"
	case "sprite_id":
		return "sprite_id"
	case "work_item_id":
		return "work_item_id"
	case "timestamp":
		return "timestamp"
	case "payload":
		return "payload"
	case "message":
		return "message"
	case "kind":
		return "kind"
	case "metadata":
		return "metadata"
	case "phase":
		return "phase"
	case "success":
		return "success"
	case "action":
		return "action"
	case "parameters":
		return "parameters"
	case "blocking":
		return "blocking"
	case "ref":
		return "ref"
	case "url":
		return "url"
	case "reason":
		return "reason"
	case "checkpoint_id":
		return "checkpoint_id"
	case "expected_inputs":
		return "expected_inputs"
	case "status":
		return "status"
	case "summary":
		return "summary"
	case "details":
		return "details"
	case "type":
		return "type"
	}
	return quote.Decode(key)
}

// toUTF8 returns b with each invalid UTF-8 byte replaced by U+FFFD, and whether there was one.
func toUTF8(b []byte) ([]byte, bool) {
	if utf8.Valid(b) {
		return b, false
	}
	out := make([]byte, 0, len(b)+len(b)/8)
	for _, r := range string(b) {
		out = utf8.AppendRune(out, r)
	}
	return out, true
}

func isNull(value []byte) bool { return len(value) == 4 && value[0] == 'n' }

func isString(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }
