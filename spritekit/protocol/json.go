package protocol

import (
	"encoding/json"
	"unicode/utf8"
)

// A reader of JSON text in place. encoding/json would do, but not what a reader of untrusted events needs: members
// matched by their exact name, number literals and unknown members untouched, duplicates seen, depth bounded. validate
// is the gate; all other functions here take only text that passed it and was compacted.

// compact returns a copy of the valid text b without white space outside of strings.
func compact(b []byte, spaces bool) []byte {
	out := make([]byte, 0, len(b))
	if !spaces {
		return append(out, b...)
	}
	for i := 0; i < len(b); {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '"':
			n := stringLen(b[i:])
			out = append(out, b[i:i+n]...)
			i += n
		default:
			out = append(out, b[i])
			i++
		}
	}
	return out
}

// stringLen is the length of the quoted string that b begins with.
func stringLen(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
}

// valueLen is the length of the value that b begins with.
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
		default: // a number or a word
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

// member is one member of an object. Name is decoded, key and value are its text.
type member struct {
	name       string
	key, value []byte
}

// members splits an object. Those named twice all appear.
func members(object []byte, into []member) []member {
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

// elements splits an array.
func elements(array []byte) [][]byte {
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

// memberName decodes key. The names that the protocol knows cost no allocation.
func memberName(key []byte) string {
	switch string(key) {
	case `"protocol_version"`:
		return "protocol_version"
	case `"event_type"`:
		return "event_type"
	case `"event_id"`:
		return "event_id"
	case `"call_id"`:
		return "call_id"
	case `"sprite_id"`:
		return "sprite_id"
	case `"work_item_id"`:
		return "work_item_id"
	case `"timestamp"`:
		return "timestamp"
	case `"payload"`:
		return "payload"
	case `"message"`:
		return "message"
	case `"kind"`:
		return "kind"
	case `"metadata"`:
		return "metadata"
	case `"phase"`:
		return "phase"
	}
	return unquote(key)
}

// unquote decodes a quoted string. Half of a surrogate pair becomes U+FFFD.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	for i, c := range inner {
		if c == '\\' {
			return string(unescape(make([]byte, 0, len(inner)), inner, i))
		}
	}
	return string(inner)
}

func unescape(out, inner []byte, i int) []byte {
	out = append(out, inner[:i]...)
	for i < len(inner) {
		if inner[i] != '\\' {
			out = append(out, inner[i])
			i++
			continue
		}
		r, n := escaped(inner[i:])
		out = utf8.AppendRune(out, r) // a lone surrogate comes out as U+FFFD
		i += n
	}
	return out
}

// escaped decodes the escape that b begins with; two escapes that make a surrogate pair count as one.
func escaped(b []byte) (r rune, n int) {
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, _ = hex4(b[2:])
		if 0xD800 <= r && r < 0xDC00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if low, ok := hex4(b[8:]); ok && 0xDC00 <= low && low < 0xE000 {
				return (r-0xD800)<<10 | (low - 0xDC00) + 0x10000, 12
			}
		}
		return r, 6
	}
	return rune(b[1]), 2
}

// appendQuoted appends s as a JSON string with as few escapes as JSON allows. Bytes that are no UTF-8 become U+FFFD,
// one each.
func appendQuoted[T string | []byte](out []byte, s T) []byte {
	out = append(out, '"')
	start := 0 // of what is not yet appended
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, n = decodeRune(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		out = append(out, s[start:i]...)
		if c < utf8.RuneSelf {
			out = appendEscape(out, c)
		} else {
			out = append(out, "\uFFFD"...)
		}
		i += n
		start = i
	}
	out = append(out, s[start:]...)
	return append(out, '"')
}

// decodeRune looks at no more than the four bytes that a rune can have, so that the conversion is free.
func decodeRune[T string | []byte](s T) (rune, int) {
	return utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
}

func appendEscape(out []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	return append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// toUTF8 returns b with each byte that is no UTF-8 replaced by U+FFFD, and whether there was one.
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
