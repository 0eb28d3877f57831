package ir

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Static types of values: they follow from the form of an expression, or from the declaration of the only writer of a
// path. They are named as by typeName; "" is unknown.

// staticType returns the type of a value expression if its form determines it, else "".
func staticType(expr any) string {
	switch v := expr.(type) {
	case string:
		if looksLikeRef(v) {
			return ""
		}
	case map[string]any:
		switch operatorOf(v) {
		case "lit":
			return typeName(v["lit"])
		case "len":
			return typeName(json.Number("0"))
		case "json":
			return typeName("")
		case "ref", "concat":
			return ""
		}
	}
	return typeName(expr)
}

// staticType also resolves references, to the type that was assigned there.
func (f *flow) staticType(text json.RawMessage) string {
	expr, err := Decode(text)
	if err != nil {
		return ""
	}
	if object, ok := expr.(map[string]any); ok && len(object) == 1 && operatorOf(object) == "ref" {
		expr = object["ref"]
	}
	if ref, ok := expr.(string); ok && looksLikeRef(ref) {
		r, err := parseRef(ref)
		switch {
		case err != nil:
		case r.root == "$in" || r.root == "$trigger":
			return f.inputType(r)
		case len(r.memberNames()) == len(r.segs):
			return f.typeOf(r.staticPath())
		}
		return ""
	}
	return staticType(expr)
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
	case OpMap:
		if got := f.staticType(n.Items); got != "" && got != "an array" && n.Items != nil {
			f.addError("items_type", ptr+"/items", `"items": "$vars.list"`, "items are an array; this is %s", got)
		}
	case OpMerge:
		for j, input := range n.From {
			if got, want := f.staticType(input), mergeTypes[n.Strategy]; got != "" && want != "" && got != want {
				f.addError("merge_type", fmt.Sprintf("%s/from/%d", ptr, j), "merge values of one type", "%s merges what is %s; this is %s", n.Strategy, want, got)
			}
		}
	case OpToolCall:
		f.checkArgTypes(n, ptr)
	default:
	}
}

// checkArgTypes compares the types of arguments that are references with the inputs of the skill. Optional ones may be null.
func (f *flow) checkArgTypes(n *Node, ptr string) {
	members, static, err := argMembers(n.Args)
	if err != nil || !static {
		return
	}
	for _, field := range f.tools[n.Tool].Inputs {
		expr, given := members[field.Name]
		if !given || !refersTo(expr) {
			continue
		}
		text, err := Marshal(expr)
		got, want := f.staticType(text), fieldType(field.Type)
		if err != nil || got == "" || want == "" || got == want || got == "null" && !field.Required {
			continue
		}
		f.addError("arg_type", ptr+"/args/"+escapePointer(field.Name), typeHint(expr, want), "%s takes %s as %s; this is %s", n.Tool, field.Name, want, got)
	}
}

// typeHint returns a hint for converting a value to a string if want is a string, else "".
func typeHint(expr any, want string) string {
	text, err := Marshal(expr)
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
			r, err := parseTarget(target)
			if err != nil || !hasSoleWriter(r, writers) {
				continue
			}
			types[r.staticPath()] = f.portType(n, port)
			if port != "result" || n.Op != OpToolCall {
				continue
			}
			for _, field := range f.tools[n.Tool].Outputs {
				if at := r.staticPath() + "." + strconv.Quote(field.Name); field.Required && writers[at] == 0 {
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
			count[r.staticPath()]++
			if f.keeps && f.owner != nil && r.root == "$vars" { // in the body of a LOOP an earlier node may have written it
				count[r.staticPath()]++
			}
		}
		for _, r := range f.loopWrites(i) {
			count[r.staticPath()] += 2
		}
		for _, c := range f.Nodes[i].Catch {
			if r, err := parseTarget(c.Bind); err == nil {
				count[r.staticPath()]++
			}
		}
	}
	return count
}

// hasSoleWriter reports whether r has one writer and its parents have none.
func hasSoleWriter(r ref, writers map[string]int) bool {
	for _, p := range r.prefixes()[:len(r.segs)-1] {
		if writers[p] > 0 {
			return false
		}
	}
	return writers[r.staticPath()] == 1
}

// portType is the type of an output of n.
func (g *graph) portType(n *Node, port string) string {
	switch {
	case n.Op == OpMap:
		return "an array"
	case n.Op == OpLoop && port == "iterations":
		return "a number"
	case n.Op == OpLoop || n.Op == OpSubgraph || n.Op == OpParallel && (n.Join == JoinAny || port != "result"):
		return ""
	case n.Op == OpMerge && n.Strategy == MergeBest:
		return ""
	case n.Op == OpMerge && port == "result":
		return mergeTypes[n.Strategy]
	case n.Op == OpPack && port != "result":
		if expr, err := Decode(n.Inputs[port]); err == nil && len(n.Projection[port]) == 0 {
			return staticType(expr)
		}
	case n.Op == OpSwitch && port == "case":
		return "a string"
	case n.Op == OpToolCall && port != "result":
		for _, field := range g.tools[n.Tool].Outputs {
			if field.Name == port && field.Required {
				return fieldType(field.Type)
			}
		}
	case port == "result" && n.Op != OpMerge:
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
