package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// given are members that every answer has, by the types of JSON Schema.
var given = map[string]string{"approved": "boolean", "comments": "string"}

// checkAnswerSchema checks that the answer schema exists and that an answer with the expected inputs can satisfy it.
func (g *graph) checkAnswerSchema(n *ir.Node, ptr string) {
	at := ptr + "/answer_schema"
	var name string
	switch {
	case n.AnswerSchema == nil:
		return
	case json.Unmarshal(n.AnswerSchema, &name) != nil:
		var schema map[string]json.RawMessage
		if json.Unmarshal(n.AnswerSchema, &schema) != nil || schema == nil {
			g.AddError("type_mismatch", at, `{"type": "object", "properties": {"choice": …}}`, "an answer's schema is a JSON Schema, or the name of one")
			return
		}
	default:
		if _, ok := g.doc.FindOutputSchema(name); !ok {
			g.AddError("schema_unknown", at, finding.Near(name, g.schemaNames()), "there is no schema %q", name)
			return
		}
	}
	o, ok := ir.ViewOf(g.doc.AnswerSchema(n)).ResolveObject()
	if !ok {
		return
	}
	asked := n.ExpectedInputs()
	impossible := func(hint, format string, args ...any) {
		g.AddError("answer_impossible", at, hint, "no answer to %s can be valid: %s", n.ID, fmt.Sprintf(format, args...))
	}
	if !ir.AllowsType(o, "object") {
		impossible(`"type": "object"`, "an answer is an object, but answer_schema requires another type")
		return
	}
	required, _ := expr.StringList(o["required"])
	for _, name := range required {
		if asked[name] == "" && given[name] == "" {
			impossible(fmt.Sprintf(`"expected_inputs": {%q: "string"}`, name), "answer_schema requires %q, which expected_inputs does not ask for", name)
		}
	}
	view := ir.ViewOf(g.doc.AnswerSchema(n))
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		member, _, never, known := view.MemberView(expr.Segment{Name: name})
		if never {
			impossible("add it to properties", "answer_schema allows no %q, which expected_inputs asks for", name)
			continue
		}
		if m, told := member.ResolveObject(); known && told {
			g.checkAnswerMember(n, name, asked[name], m, impossible)
		}
	}
}

// checkAnswerMember compares the type of one expected input with the schema of that member.
func (g *graph) checkAnswerMember(n *ir.Node, name, expected string, schema map[string]any, impossible func(hint, format string, args ...any)) {
	want := expected
	switch {
	case expected == "map":
		want = "object"
	case strings.HasPrefix(expected, "array<"):
		want = "array"
	}
	if !ir.AllowsType(schema, want) && !(want == "integer" && ir.AllowsType(schema, "number")) {
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

// checkInputSchema checks that input_schema is a schema of objects, or names one.
func (v *validator) checkInputSchema() {
	const ptr = "/input_schema"
	var name string
	if v.doc.InputSchema == nil {
		return
	}
	if json.Unmarshal(v.doc.InputSchema, &name) == nil {
		if _, ok := v.doc.FindOutputSchema(name); !ok {
			v.AddError("schema_unknown", ptr, finding.Near(name, v.schemaNames()), "there is no schema %q", name)
			return
		}
	}
	schema, err := expr.Decode(v.doc.FullInputSchema())
	switch object, ok := schema.(map[string]any); {
	case err != nil || !ok && schema != true:
		v.AddError("type_mismatch", ptr, `{"type": "object", "properties": {…}}, or the name of a schema in schemas`, "an input's schema is a JSON Schema, or the name of one; this is %s", expr.TypeName(schema))
	case ok && !ir.AllowsType(object, "object"):
		v.AddError("schema_no_object", ptr, `{"type": "object", "properties": {…}}`, "the input of a flow is an object; the schema describes something else")
	}
}

// inputView returns the schema of $in, false if there is none. The result is cached.
func (v *validator) inputView() (ir.SchemaView, bool) {
	if v.input == nil {
		v.input = &ir.SchemaView{}
		if text := v.doc.FullInputSchema(); text != nil {
			if schema, err := expr.Decode(text); err == nil {
				*v.input = ir.SchemaView{Root: schema, At: schema}
			}
		}
	}
	return *v.input, v.input.Root != nil
}

// checkInputRef refuses a reference into $in that no input which fits the schema can have.
func (g *graph) checkInputRef(r expr.Ref, ptr string) {
	view, ok := g.inputView()
	for i, seg := range r.Segs {
		if !ok {
			return
		}
		next, known, never, more := view.MemberView(seg)
		if never {
			hint := finding.Near(seg.Name, known)
			if known == nil {
				hint = "input_schema says of which type it is"
			}
			g.AddError("member_unknown", ptr, hint, "%s is never there: by input_schema %s has no %s", r, expr.Ref{Root: r.Root, Segs: r.Segs[:i]}, ir.SegmentText(seg))
			return
		}
		view, ok = next, more
	}
}

// inputType returns the type of the value that a reference into $in selects, as typeName names it; "" is unknown.
func (v *validator) inputType(r expr.Ref) string {
	view, ok := v.inputView()
	for _, seg := range r.Segs {
		var never bool
		if !ok || seg.Kind == expr.SegAll {
			return ""
		}
		if view, _, never, ok = view.MemberView(seg); never {
			return ""
		}
	}
	o, told := view.ResolveObject()
	if name, one := o["type"].(string); ok && told && one {
		return ir.SchemaTypeNames[name]
	}
	return ""
}

// checkSubgraphInputs checks the names of a SUBGRAPH's inputs against the input_schema of its document.
func (g *graph) checkSubgraphInputs(n *ir.Node, sub *ir.Document, ptr string) {
	v := &validator{Report: &finding.Report{}, doc: sub}
	view, ok := v.inputView()
	if !ok {
		return
	}
	o, ok := view.ResolveObject()
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		if _, known, never, _ := view.MemberView(expr.Segment{Name: name}); never {
			g.AddError("port_unknown", ptr+"/inputs/"+finding.EscapePointer(name), finding.Near(name, known), "the subgraph takes no input %q", name)
		}
	}
	required, _ := expr.StringList(o["required"])
	for _, name := range required {
		if _, given := n.Inputs[name]; !given {
			g.AddError("port_missing", ptr+"/inputs/"+finding.EscapePointer(name), `"inputs": {"`+name+`": value}`, "the subgraph needs an input %q", name)
		}
	}
}
