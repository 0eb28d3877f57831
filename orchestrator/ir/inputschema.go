package ir

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The input schema of a document: input_schema is a JSON Schema or the name of one. This file uses it to find out which
// members an input can have and their types. Keywords that combine schemas (allOf, anyOf, if …) are ignored here; package
// compile validates an input against the whole schema.

// InputSchema returns the JSON Schema that the input of a run must satisfy, nil if there is none.
func (p *Program) InputSchema() json.RawMessage { return p.Doc.inputSchema() }

// SubgraphInputSchema returns the JSON Schema that the inputs of a SUBGRAPH node must satisfy, nil if there is none.
func (p *Program) SubgraphInputSchema(n *Node) json.RawMessage {
	return p.homeOf(p.subgraphOf(n.Ref)).inputSchema()
}

// homeOf returns the document that inner is the graph of.
func (p *Program) homeOf(inner Inner) *Document {
	if inner.Body == nil || len(inner.Nodes) == 0 {
		return &Document{}
	}
	return p.documentOf(&inner.Nodes[0])
}

func (d *Document) inputSchema() json.RawMessage {
	var name string
	if d.InputSchema == nil || json.Unmarshal(d.InputSchema, &name) != nil {
		return d.InputSchema
	}
	schema, _ := d.outputSchema(name)
	return schema
}

// checkInputSchema checks that input_schema is a schema of objects, or names one.
func (v *validator) checkInputSchema() {
	const ptr = "/input_schema"
	var name string
	if v.doc.InputSchema == nil {
		return
	}
	if json.Unmarshal(v.doc.InputSchema, &name) == nil {
		if _, ok := v.doc.outputSchema(name); !ok {
			v.addError("schema_unknown", ptr, Near(name, v.schemaNames()), "there is no schema %q", name)
			return
		}
	}
	schema, err := Decode(v.doc.inputSchema())
	switch object, ok := schema.(map[string]any); {
	case err != nil || !ok && schema != true:
		v.addError("type_mismatch", ptr, `{"type": "object", "properties": {…}}, or the name of a schema in schemas`, "an input's schema is a JSON Schema, or the name of one; this is %s", typeName(schema))
	case ok && !allowsType(object, "object"):
		v.addError("schema_no_object", ptr, `{"type": "object", "properties": {…}}`, "the input of a flow is an object; the schema describes something else")
	}
}

// schemaView is a place in a JSON Schema; root is the whole of it.
type schemaView struct{ root, at any }

// inputView returns the schema of $in, false if there is none. The result is cached.
func (v *validator) inputView() (schemaView, bool) {
	if v.input == nil {
		v.input = &schemaView{}
		if text := v.doc.inputSchema(); text != nil {
			if schema, err := Decode(text); err == nil {
				*v.input = schemaView{root: schema, at: schema}
			}
		}
	}
	return *v.input, v.input.root != nil
}

// resolveObject returns the schema at this place, with references within the document followed. ok is false if it is not
// an object or combines other schemas.
func (s schemaView) resolveObject() (map[string]any, bool) {
	for range 16 {
		o, ok := s.at.(map[string]any)
		if !ok || combinesSchemas(o) {
			return nil, false
		}
		to, refers := o["$ref"].(string)
		if !refers {
			return o, true
		}
		if s.at, ok = followPointer(s.root, to); !ok || len(o) > 1 {
			return nil, false
		}
	}
	return nil, false
}

// combinesSchemas reports whether a schema combines other schemas.
func combinesSchemas(o map[string]any) bool {
	for _, k := range []string{"allOf", "anyOf", "OneOf", "not", "if", "$dynamicRef", "dependentSchemas", "dependencies", "unevaluatedProperties", "$id"} {
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
	for _, token := range strings.Split(pointer[1:], "/") {
		switch in := v.(type) {
		case map[string]any:
			member, there := in[pointerUnescaper.Replace(token)]
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

// allowsType reports whether the "type" of a schema allows a type.
func allowsType(o map[string]any, name string) bool {
	switch t := o["type"].(type) {
	case string:
		return t == name || name == "number" && t == "integer"
	case []any:
		return slices.ContainsFunc(t, func(e any) bool { return e == name || name == "number" && e == "integer" })
	}
	return true
}

// memberView returns the schema of the value that a segment selects. never reports that there cannot be such a value:
// the schema lists all members (known) and this is not one of them, or the value has no members.
func (s schemaView) memberView(seg segment) (next schemaView, known []string, never, ok bool) {
	o, ok := s.resolveObject()
	if !ok {
		return schemaView{}, nil, false, false
	}
	if seg.kind != segName {
		if !allowsType(o, "array") {
			return schemaView{}, nil, true, true
		}
		items, there := o["items"]
		_, prefixed := o["prefixItems"]
		return schemaView{s.root, items}, nil, false, there && !prefixed
	}
	if !allowsType(o, "object") {
		return schemaView{}, nil, true, true
	}
	properties, _ := o["properties"].(map[string]any)
	if m, there := properties[seg.name]; there {
		return schemaView{s.root, m}, nil, m == false, true
	}
	if _, patterns := o["patternProperties"]; patterns {
		return schemaView{}, nil, false, false
	}
	switch rest := o["additionalProperties"].(type) {
	case bool:
		if rest {
			return schemaView{}, nil, false, false
		}
		return schemaView{}, slices.Sorted(maps.Keys(properties)), true, true
	case map[string]any:
		return schemaView{s.root, rest}, nil, false, true
	}
	return schemaView{}, nil, false, false
}

// checkInputRef refuses a reference into $in that no input which fits the schema can have.
func (g *graph) checkInputRef(r ref, ptr string) {
	view, ok := g.inputView()
	for i, seg := range r.segs {
		if !ok {
			return
		}
		next, known, never, more := view.memberView(seg)
		if never {
			hint := Near(seg.name, known)
			if known == nil {
				hint = "input_schema says of which type it is"
			}
			g.addError("member_unknown", ptr, hint, "%s is never there: by input_schema %s has no %s", r, ref{root: r.root, segs: r.segs[:i]}, segmentText(seg))
			return
		}
		view, ok = next, more
	}
}

func segmentText(seg segment) string {
	if seg.kind == segName {
		return "member \"" + seg.name + "\""
	}
	return "elements"
}

// inputType returns the type of the value that a reference into $in selects, as typeName names it; "" is unknown.
func (v *validator) inputType(r ref) string {
	view, ok := v.inputView()
	for _, seg := range r.segs {
		var never bool
		if !ok || seg.kind == segAll {
			return ""
		}
		if view, _, never, ok = view.memberView(seg); never {
			return ""
		}
	}
	o, told := view.resolveObject()
	if name, one := o["type"].(string); ok && told && one {
		return schemaTypeNames[name]
	}
	return ""
}

// schemaTypeNames are the types of JSON Schema as typeName has them.
var schemaTypeNames = map[string]string{
	"string": "a string", "integer": "a number", "number": "a number", "boolean": "a boolean", "object": "an object", "array": "an array", "null": "null",
}

// checkSubgraphInputs checks the names of a SUBGRAPH's inputs against the input_schema of its document.
func (g *graph) checkSubgraphInputs(n *Node, sub *Document, ptr string) {
	v := &validator{report: &report{}, doc: sub}
	view, ok := v.inputView()
	if !ok {
		return
	}
	o, ok := view.resolveObject()
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		if _, known, never, _ := view.memberView(segment{name: name}); never {
			g.addError("port_unknown", ptr+"/inputs/"+escapePointer(name), Near(name, known), "the subgraph takes no input %q", name)
		}
	}
	required, _ := stringList(o["required"])
	for _, name := range required {
		if _, given := n.Inputs[name]; !given {
			g.addError("port_missing", ptr+"/inputs/"+escapePointer(name), `"inputs": {"`+name+`": value}`, "the subgraph needs an input %q", name)
		}
	}
}
