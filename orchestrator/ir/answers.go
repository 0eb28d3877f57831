package ir

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AnswerSchema returns the JSON Schema that the answer to a HUMAN node must satisfy, nil if there is none.
func (p *Program) AnswerSchema(n *Node) json.RawMessage {
	return p.documentOf(n).AnswerSchema(n)
}

// AnswerSchema is the same for a node of the document.
func (d *Document) AnswerSchema(n *Node) json.RawMessage {
	var name string
	if n.AnswerSchema == nil || json.Unmarshal(n.AnswerSchema, &name) != nil {
		return n.AnswerSchema
	}
	schema, _ := d.outputSchema(name)
	return schema
}

// Judged returns the part of an answer that is validated against answer_schema: the expected inputs, and those of
// approved and comments that the schema names.
func (p *Program) Judged(n *Node, answer map[string]any) map[string]any {
	asked := n.ExpectedInputs()
	view := viewOf(p.AnswerSchema(n))
	return maps.Collect(func(yield func(string, any) bool) {
		for name, v := range answer {
			_, expected := asked[name]
			if (expected || view.speaksOf(name)) && !yield(name, v) {
				return
			}
		}
	})
}

func viewOf(text json.RawMessage) schemaView {
	schema, err := Decode(text)
	if err != nil {
		return schemaView{}
	}
	return schemaView{root: schema, at: schema}
}

// speaksOf reports whether a schema names a member.
func (s schemaView) speaksOf(name string) bool {
	o, _ := s.resolveObject()
	properties, _ := o["properties"].(map[string]any)
	required, _ := stringList(o["required"])
	_, named := properties[name]
	return named || slices.Contains(required, name)
}

// given are members that every answer has, by the types of JSON Schema.
var given = map[string]string{"approved": "boolean", "comments": "string"}

// checkAnswerSchema checks that the answer schema exists and that an answer with the expected inputs can satisfy it.
func (g *graph) checkAnswerSchema(n *Node, ptr string) {
	at := ptr + "/answer_schema"
	var name string
	switch {
	case n.AnswerSchema == nil:
		return
	case json.Unmarshal(n.AnswerSchema, &name) != nil:
		var schema map[string]json.RawMessage
		if json.Unmarshal(n.AnswerSchema, &schema) != nil || schema == nil {
			g.addError("type_mismatch", at, `{"type": "object", "properties": {"choice": …}}`, "an answer's schema is a JSON Schema, or the name of one")
			return
		}
	default:
		if _, ok := g.doc.outputSchema(name); !ok {
			g.addError("schema_unknown", at, Near(name, g.schemaNames()), "there is no schema %q", name)
			return
		}
	}
	o, ok := viewOf(g.doc.AnswerSchema(n)).resolveObject()
	if !ok {
		return
	}
	asked := n.ExpectedInputs()
	impossible := func(hint, format string, args ...any) {
		g.addError("answer_impossible", at, hint, "no answer to %s can be valid: %s", n.ID, fmt.Sprintf(format, args...))
	}
	if !allowsType(o, "object") {
		impossible(`"type": "object"`, "an answer is an object, but answer_schema requires another type")
		return
	}
	required, _ := stringList(o["required"])
	for _, name := range required {
		if asked[name] == "" && given[name] == "" {
			impossible(fmt.Sprintf(`"expected_inputs": {%q: "string"}`, name), "answer_schema requires %q, which expected_inputs does not ask for", name)
		}
	}
	view := viewOf(g.doc.AnswerSchema(n))
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		member, _, never, known := view.memberView(segment{name: name})
		if never {
			impossible("add it to properties", "answer_schema allows no %q, which expected_inputs asks for", name)
			continue
		}
		if m, told := member.resolveObject(); known && told {
			g.checkAnswerMember(n, name, asked[name], m, impossible)
		}
	}
}

// checkAnswerMember compares the type of one expected input with the schema of that member.
func (g *graph) checkAnswerMember(n *Node, name, expected string, schema map[string]any, impossible func(hint, format string, args ...any)) {
	want := expected
	switch {
	case expected == "map":
		want = "object"
	case strings.HasPrefix(expected, "array<"):
		want = "array"
	}
	if !allowsType(schema, want) && !(want == "integer" && allowsType(schema, "number")) {
		impossible("", "%q is expected as %s, but answer_schema requires another type", name, expected)
		return
	}
	list, ok := schema["enum"].([]any)
	if !ok || name != "choice" || len(n.Choices) == 0 {
		return
	}
	if !slices.ContainsFunc(list, func(v any) bool { text, _ := v.(string); return slices.Contains(n.Choices, text) }) {
		impossible("", "answer_schema allows none of the choices %s", strings.Join(n.Choices, ", "))
	}
}
