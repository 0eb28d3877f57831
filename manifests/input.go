package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// TypeAny is the type of a field that takes every value.
const TypeAny = "any"

// ValidType reports whether t is of the type vocabulary: any ("" is the same), string, integer, number, boolean, map,
// array, or array<T> of such a T.
func ValidType(t string) bool {
	for range 8 { // deeper nesting comes only from a hostile manifest
		switch t {
		case "", TypeAny, "string", "integer", "number", "boolean", "map", "array":
			return true
		}
		element, ok := elementType(t)
		if !ok || element == "" {
			return false
		}
		t = element
	}
	return false
}

// elementType returns T of array<T>.
func elementType(t string) (string, bool) {
	inner, ok := strings.CutPrefix(t, "array<")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, ">")
}

// CheckInput judges an input object against the manifest and returns all problems, sorted by pointer: unknown members
// ("$schema" is allowed), missing ones, wrong types, and a variant that does not exist. null in an optional member
// counts as absent. An integer is an integer literal: 3, not 3.0. Input schemas are not applied here.
func (s Skill) CheckInput(input map[string]json.RawMessage) []Problem {
	var problems []Problem
	if s.Inputs != nil {
		known := map[string]bool{"$schema": true}
		for _, f := range s.Inputs {
			known[f.Name] = true
			if p := f.checkInput(input); p != nil {
				problems = append(problems, *p)
			}
		}
		for name := range input {
			if !known[name] {
				problems = append(problems, Problem{"/" + escapeToken(name), fmt.Sprintf("is not an input of %s%s", s.Name, s.listInputs())})
			}
		}
	}
	if p := s.checkVariant(input); p != nil {
		problems = append(problems, *p)
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Pointer, b.Pointer) })
	return problems
}

// CheckOutput judges a result's data against the manifest and returns all problems, in the order of the outputs: missing
// members and wrong types. Members that the manifest does not name are fine. Output schemas are not applied here.
func (s Skill) CheckOutput(data map[string]json.RawMessage) []Problem {
	var problems []Problem
	for _, f := range s.Outputs {
		if p := f.checkInput(data); p != nil {
			problems = append(problems, *p)
		}
	}
	return problems
}

func (f Field) checkInput(input map[string]json.RawMessage) *Problem {
	raw, ok := input[f.Name]
	pointer := "/" + f.Name
	if !ok {
		if f.Required {
			return &Problem{pointer, "is required"}
		}
		return nil
	}
	if isNull(raw) && !f.Required {
		return nil
	}
	return findMismatch(raw, f.Type, pointer)
}

func (s Skill) checkVariant(input map[string]json.RawMessage) *Problem {
	if s.Variants == nil {
		return nil
	}
	var choice string
	raw, ok := input[s.Variants.Input]
	if !ok || isNull(raw) || json.Unmarshal(raw, &choice) != nil {
		return nil // absent, or of a wrong type and already reported
	}
	if _, ok := s.Variants.Cases[choice]; ok {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.Variants.Cases))
	return &Problem{"/" + escapeToken(s.Variants.Input), fmt.Sprintf("%q is none of %s", choice, strings.Join(names, ", "))}
}

// listInputs lists the inputs for a person who mistyped one.
func (s Skill) listInputs() string {
	if len(s.Inputs) == 0 {
		return ", which takes none"
	}
	names := make([]string, len(s.Inputs))
	for i, f := range s.Inputs {
		names[i] = f.Name
	}
	return " (it takes " + strings.Join(names, ", ") + ")"
}

// findMismatch reports the first place where raw is not of type t.
func findMismatch(raw json.RawMessage, t, pointer string) *Problem {
	trimmed := bytes.TrimSpace(raw)
	if !json.Valid(trimmed) {
		return &Problem{pointer, "is not JSON"}
	}
	first := trimmed[0]
	ok := true
	switch t {
	case "", TypeAny:
	case "string":
		ok = first == '"'
	case "boolean":
		ok = first == 't' || first == 'f'
	case "map":
		ok = first == '{'
	case "array":
		ok = first == '['
	case "number":
		ok = isNumber(first)
	case "integer":
		ok = isNumber(first) && !bytes.ContainsAny(trimmed, ".eE")
		if ok {
			if _, err := strconv.ParseInt(string(trimmed), 10, 64); err != nil {
				return &Problem{pointer, "is an integer beyond 64 bits"}
			}
		}
	default:
		element, isArray := elementType(t)
		if ok = isArray && first == '['; ok {
			return elementMismatch(trimmed, element, pointer)
		}
	}
	if ok {
		return nil
	}
	return &Problem{pointer, fmt.Sprintf("is %s, want %s", kindOf(trimmed), t)}
}

func elementMismatch(raw json.RawMessage, t, pointer string) *Problem {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return &Problem{pointer, "is not an array"}
	}
	for i, e := range elements {
		if p := findMismatch(e, t, pointer+"/"+strconv.Itoa(i)); p != nil {
			return p
		}
	}
	return nil
}

func isNumber(first byte) bool { return first == '-' || '0' <= first && first <= '9' }

func kindOf(raw []byte) string {
	switch c := raw[0]; {
	case c == '"':
		return "a string"
	case c == '{':
		return "a map"
	case c == '[':
		return "an array"
	case c == 'n':
		return "null"
	case c == 't' || c == 'f':
		return "a boolean"
	case bytes.ContainsAny(raw, ".eE"):
		return "a fractional number"
	default:
		return "an integer"
	}
}

// escapeToken makes a member name a reference token of a JSON pointer (RFC 6901).
func escapeToken(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
