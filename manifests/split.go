package manifests

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Every skill reads its manifest before it does anything else. Splitting the document here, once it was found valid,
// takes a tenth of the time that encoding/json takes to decode it level by level, and none of its memory.

// splitObject splits a valid JSON value into the members of an object, whose values point into raw; of two with one name the
// last counts, and twice has the name. It returns nil when raw is no object.
func splitObject(raw []byte) (m map[string]json.RawMessage, twice []string) {
	rest := skipSpace(raw)
	if len(rest) == 0 || rest[0] != '{' {
		return nil, nil
	}
	m = map[string]json.RawMessage{}
	for rest = skipSpace(rest[1:]); rest[0] != '}'; rest = skipSpace(rest) {
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
		n := valueLen(rest)
		var name string
		decodeValue(rest[:n], &name) // a string, as the document is valid
		rest = skipSpace(skipSpace(rest[n:])[1:])
		n = valueLen(rest)
		if m[name] != nil {
			twice = append(twice, name)
		}
		m[name], rest = rest[:n:n], rest[n:]
	}
	return m, twice
}

// splitArray splits a valid JSON value into those of an array; ok is false when it is none.
func splitArray(raw []byte) (list []json.RawMessage, ok bool) {
	rest := skipSpace(raw)
	if len(rest) == 0 || rest[0] != '[' {
		return nil, false
	}
	for rest = skipSpace(rest[1:]); rest[0] != ']'; rest = skipSpace(rest) {
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
		n := valueLen(rest)
		list, rest = append(list, rest[:n:n]), rest[n:]
	}
	return list, true
}

// decodeValue is json.Unmarshal of a valid value, with a fast path for the types of manifests. null leaves v unchanged, except in a list
// of strings, where it is not a string.
func decodeValue(raw json.RawMessage, v any) bool {
	switch v := v.(type) {
	case *bool:
		if text := string(raw); text == "true" || text == "false" {
			*v = text == "true"
			return true
		}
	case *string:
		if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
			*v = string(raw[1 : len(raw)-1])
			return true
		}
	case *[]json.RawMessage:
		if list, ok := splitArray(raw); ok {
			*v = list
			return true
		}
	case *[]string:
		list, ok := splitArray(raw)
		if !ok {
			break
		}
		texts := make([]string, len(list))
		for i, raw := range list {
			if raw[0] != '"' || !decodeValue(raw, &texts[i]) {
				return false
			}
		}
		*v = texts
		return true
	}
	return json.Unmarshal(raw, v) == nil
}

func skipSpace(raw []byte) []byte { return bytes.TrimLeft(raw, " \t\r\n") }

// valueLen is how long the value is that valid JSON begins with.
func valueLen(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			i += stringLen(raw[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return i + 1 + depth // of a bare value the bracket is not part
			}
		case depth == 0 && strings.IndexByte(", \t\r\n:", c) >= 0:
			return i
		}
	}
	return len(raw)
}

// stringLen is how long the string is, quotes included.
func stringLen(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}
