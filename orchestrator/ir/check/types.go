package check

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Static types of values: they follow from the form of an expression, or from the declaration of the only writer of a
// path. They are named as by typeName; "" is unknown.

// staticType returns the type of a value expression if its form determines it, else "".
func staticType(expression any) string {
	switch v := expression.(type) {
	case string:
		if expr.LooksLikeRef(v) {
			return ""
		}
	case map[string]any:
		switch expr.OperatorOf(v) {
		case "lit":
			return expr.TypeName(v["lit"])
		case "len":
			return expr.TypeName(json.Number("0"))
		case "json":
			return expr.TypeName("")
		case "ref", "concat":
			return ""
		}
	}
	return expr.TypeName(expression)
}

// staticType also resolves references, to the type that was assigned there.
func (f *flow) staticType(text json.RawMessage) string {
	expression, err := expr.Decode(text)
	if err != nil {
		return ""
	}
	if object, ok := expression.(map[string]any); ok && len(object) == 1 && expr.OperatorOf(object) == "ref" {
		expression = object["ref"]
	}
	if ref, ok := expression.(string); ok && expr.LooksLikeRef(ref) {
		r, err := expr.ParseRef(ref)
		switch {
		case err != nil:
		case r.Root == "$in" || r.Root == "$trigger":
			return f.inputType(r)
		case len(r.MemberNames()) == len(r.Segs):
			return f.typeOf(r.StaticPath())
		}
		return ""
	}
	return staticType(expression)
}

func (f *flow) typeOf(path string) string {
	if t, ok := f.types[path]; ok || f.outer == nil || !outlivesNode(path) {
		return t
	}
	return f.outer.typeOf(path)
}

// checkTypes compares the types of node i's operands with those that it needs.
func (f *flow) checkTypes(i int) {
	switch n, ptr := &f.Nodes[i], f.nodePtr(i); n.Op {
	case ir.OpMap:
		if got := f.staticType(n.Items); got != "" && got != "an array" && n.Items != nil {
			f.AddError("items_type", ptr+"/items", `"items": "$vars.list"`, "items are an array; this is %s", got)
		}
	case ir.OpMerge:
		for j, input := range n.From {
			if got, want := f.staticType(input), mergeTypes[n.Strategy]; got != "" && want != "" && got != want {
				f.AddError("merge_type", fmt.Sprintf("%s/from/%d", ptr, j), "merge values of one type", "%s merges what is %s; this is %s", n.Strategy, want, got)
			}
		}
	case ir.OpToolCall:
		f.checkArgTypes(n, ptr)
	default:
	}
}

// checkArgTypes compares the types of arguments that are references with the inputs of the skill. Optional ones may be null.
func (f *flow) checkArgTypes(n *ir.Node, ptr string) {
	members, static, err := ir.ArgMembers(n.Args)
	if err != nil || !static {
		return
	}
	for _, field := range f.tools[n.Tool].Inputs {
		expression, given := members[field.Name]
		if !given || !expr.RefersTo(expression) {
			continue
		}
		text, err := expr.Marshal(expression)
		got, want := f.staticType(text), fieldType(field.Type)
		if err != nil || got == "" || want == "" || got == want || got == "null" && !field.Required {
			continue
		}
		f.AddError("arg_type", ptr+"/args/"+finding.EscapePointer(field.Name), typeHint(expression, want), "%s takes %s as %s; this is %s", n.Tool, field.Name, want, got)
	}
}

// typeHint returns a hint for converting a value to a string if want is a string, else "".
func typeHint(expression any, want string) string {
	text, err := expr.Marshal(expression)
	if want != "a string" || err != nil {
		return ""
	}
	return `{"json": ` + string(text) + `} makes text of it`
}

// typesOf returns the types of paths that have a single writer, and of the members that the writer declares.
func (f *flow) typesOf() map[string]string {
	writers := f.countWriters()
	types := map[string]string{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for port, target := range n.Outputs {
			r, err := expr.ParseTarget(target)
			if err != nil || !hasSoleWriter(r, writers) {
				continue
			}
			types[r.StaticPath()] = f.portType(n, port)
			if port != "result" || n.Op != ir.OpToolCall {
				continue
			}
			for _, field := range f.tools[n.Tool].Outputs {
				if at := r.StaticPath() + "." + strconv.Quote(field.Name); field.Required && writers[at] == 0 {
					types[at] = fieldType(field.Type)
				}
			}
		}
	}
	return types
}

// countWriters counts the writers of each path.
func (f *flow) countWriters() map[string]int {
	count := map[string]int{}
	for i := range f.Nodes {
		for _, r := range targetsOf(&f.Nodes[i]) {
			count[r.StaticPath()]++
			if f.keeps && f.owner != nil && r.Root == "$vars" { // in the body of a LOOP an earlier node may have written it
				count[r.StaticPath()]++
			}
		}
		for _, r := range f.loopWrites(i) {
			count[r.StaticPath()] += 2
		}
		for _, c := range f.Nodes[i].Catch {
			if r, err := expr.ParseTarget(c.Bind); err == nil {
				count[r.StaticPath()]++
			}
		}
	}
	return count
}

// hasSoleWriter reports whether r has one writer and its parents have none.
func hasSoleWriter(r expr.Ref, writers map[string]int) bool {
	for _, p := range r.Prefixes()[:len(r.Segs)-1] {
		if writers[p] > 0 {
			return false
		}
	}
	return writers[r.StaticPath()] == 1
}

// portType is the type of an output of n.
func (g *graph) portType(n *ir.Node, port string) string {
	switch {
	case n.Op == ir.OpMap:
		return "an array"
	case n.Op == ir.OpLoop && port == "iterations":
		return "a number"
	case n.Op == ir.OpLoop || n.Op == ir.OpSubgraph || n.Op == ir.OpParallel && (n.Join == ir.JoinAny || port != "result"):
		return ""
	case n.Op == ir.OpMerge && n.Strategy == ir.MergeBest:
		return ""
	case n.Op == ir.OpMerge && port == "result":
		return mergeTypes[n.Strategy]
	case n.Op == ir.OpPack && port != "result":
		if expression, err := expr.Decode(n.Inputs[port]); err == nil && len(n.Projection[port]) == 0 {
			return staticType(expression)
		}
	case n.Op == ir.OpSwitch && port == "case":
		return "a string"
	case n.Op == ir.OpToolCall && port != "result":
		for _, field := range g.tools[n.Tool].Outputs {
			if field.Name == port && field.Required {
				return fieldType(field.Type)
			}
		}
	case port == "result" && n.Op != ir.OpMerge:
		return "an object"
	}
	return ""
}

// fieldType names a type of manifests.
func fieldType(t string) string {
	switch {
	case t == "string":
		return "a string"
	case t == "integer" || t == "number":
		return "a number"
	case t == "boolean":
		return "a boolean"
	case t == "map":
		return "an object"
	case strings.HasPrefix(t, "array<"):
		return "an array"
	}
	return ""
}
