package ir

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

func ViewOf(text json.RawMessage) SchemaView {
	schema, err := expr.Decode(text)
	if err != nil {
		return SchemaView{}
	}
	return SchemaView{Root: schema, At: schema}
}

// speaksOf reports whether a schema names a member.
func (s SchemaView) speaksOf(name string) bool {
	o, _ := s.ResolveObject()
	properties, _ := o["properties"].(map[string]any)
	required, _ := expr.StringList(o["required"])
	_, named := properties[name]
	return named || slices.Contains(required, name)
}

// SchemaView is a place in a JSON Schema; root is the whole of it.
type SchemaView struct{ Root, At any }

// ResolveObject returns the schema at this place, with references within the document followed. ok is false if it is not
// an object or combines other schemas.
func (s SchemaView) ResolveObject() (map[string]any, bool) {
	for range 16 {
		o, ok := s.At.(map[string]any)
		if !ok || combinesSchemas(o) {
			return nil, false
		}
		to, refers := o["$ref"].(string)
		if !refers {
			return o, true
		}
		if s.At, ok = followPointer(s.Root, to); !ok || len(o) > 1 {
			return nil, false
		}
	}
	return nil, false
}

// combinesSchemas reports whether a schema combines other schemas.
func combinesSchemas(o map[string]any) bool {
	for _, k := range []string{"allOf", "anyOf", "oneOf", "not", "if", "$dynamicRef", "dependentSchemas", "dependencies", "unevaluatedProperties", "$id"} {
		if _, ok := o[k]; ok {
			return true
		}
	}
	return false
}

// followPointer follows "#/$defs/name", a JSON pointer as a fragment (RFC 6901, section 6), from the root of a schema.
func followPointer(root any, to string) (any, bool) {
	fragment, ok := strings.CutPrefix(to, "#")
	path, err := url.PathUnescape(fragment)
	if !ok || err != nil {
		return nil, false
	}
	return atPointer(root, path)
}

// atPointer is the value at a JSON pointer (RFC 6901).
func atPointer(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch in := v.(type) {
		case map[string]any:
			member, there := in[finding.PointerUnescaper.Replace(token)]
			if !there {
				return nil, false
			}
			v = member
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) || strconv.Itoa(i) != token {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// AllowsType reports whether the "type" of a schema allows a type.
func AllowsType(o map[string]any, name string) bool {
	switch t := o["type"].(type) {
	case string:
		return t == name || name == "number" && t == "integer"
	case []any:
		return slices.ContainsFunc(t, func(e any) bool { return e == name || name == "number" && e == "integer" })
	}
	return true
}

// MemberView returns the schema of the value that a segment selects. never reports that there cannot be such a value:
// the schema lists all members (known) and this is not one of them, or the value has no members.
func (s SchemaView) MemberView(seg expr.Segment) (next SchemaView, known []string, never, ok bool) {
	o, ok := s.ResolveObject()
	if !ok {
		return SchemaView{}, nil, false, false
	}
	if seg.Kind != expr.SegName {
		if !AllowsType(o, "array") {
			return SchemaView{}, nil, true, true
		}
		items, there := o["items"]
		_, prefixed := o["prefixItems"]
		return SchemaView{s.Root, items}, nil, false, there && !prefixed
	}
	if !AllowsType(o, "object") {
		return SchemaView{}, nil, true, true
	}
	properties, _ := o["properties"].(map[string]any)
	if m, there := properties[seg.Name]; there {
		return SchemaView{s.Root, m}, nil, m == false, true
	}
	if _, patterns := o["patternProperties"]; patterns {
		return SchemaView{}, nil, false, false
	}
	switch rest := o["additionalProperties"].(type) {
	case bool:
		if rest {
			return SchemaView{}, nil, false, false
		}
		return SchemaView{}, slices.Sorted(maps.Keys(properties)), true, true
	case map[string]any:
		return SchemaView{s.Root, rest}, nil, false, true
	}
	return SchemaView{}, nil, false, false
}

func SegmentText(seg expr.Segment) string {
	if seg.Kind == expr.SegName {
		return "member \"" + seg.Name + "\""
	}
	return "elements"
}

// SchemaTypeNames are the types of JSON Schema as typeName has them.
var SchemaTypeNames = map[string]string{
	"string": "a string", "integer": "a number", "number": "a number", "boolean": "a boolean", "object": "an object", "array": "an array", "null": "null",
}
