package ir

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Types of values, as far as they are known before the run: by the form of an expression, and by what the only writer
// of a path declares. They have the names of typeName; "" is not known.

// staticType names the type of a value expression as far as its form tells, "" where it does not.
func staticType(expr any) string {
	switch v := expr.(type) {
	case string:
		if looksLikeRef(v) {
			return ""
		}
	case map[string]any:
		switch operator(v) {
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

// staticType of a reference looks up what was written there.
func (f *flow) staticType(text json.RawMessage) string {
	expr, err := decodeValue(text)
	if err != nil {
		return ""
	}
	if object, ok := expr.(map[string]any); ok && len(object) == 1 && operator(object) == "ref" {
		expr = object["ref"]
	}
	if ref, ok := expr.(string); ok && looksLikeRef(ref) {
		r, err := parseRef(ref)
		switch {
		case err != nil:
		case r.root == "$in" || r.root == "$trigger":
			return f.inputType(r)
		case len(r.names()) == len(r.segs):
			return f.typeOf(r.path())
		}
		return ""
	}
	return staticType(expr)
}

func (f *flow) typeOf(path string) string {
	if t, ok := f.types[path]; ok || f.outer == nil || !kept(path) {
		return t
	}
	return f.outer.typeOf(path)
}

// checkTypes checks what node i reads against the types that it takes.
func (f *flow) checkTypes(i int) {
	switch n, ptr := &f.Nodes[i], f.nodePtr(i); n.Op {
	case OpMap:
		if got := f.staticType(n.Items); got != "" && got != "an array" && n.Items != nil {
			f.error("items_type", ptr+"/items", "", "items are an array; this is %s", got)
		}
	case OpMerge:
		for j, input := range n.From {
			if got, want := f.staticType(input), mergeTypes[n.Strategy]; got != "" && want != "" && got != want {
				f.error("merge_type", fmt.Sprintf("%s/from/%d", ptr, j), "", "%s merges what is %s; this is %s", n.Strategy, want, got)
			}
		}
	case OpToolCall:
		f.checkArgTypes(n, ptr)
	default:
	}
}

// checkArgTypes holds arguments that are references against the types that the skill takes. What is optional may be null.
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
		f.error("arg_type", ptr+"/args/"+escapePointer(field.Name), typeHint(expr, want), "%s takes %s as %s; this is %s", n.Tool, field.Name, want, got)
	}
}

// typeHint says how a value of another type becomes a text, if that is wanted.
func typeHint(expr any, want string) string {
	text, err := Marshal(expr)
	if want != "a string" || err != nil {
		return ""
	}
	return `{"json": ` + string(text) + `} makes text of it`
}

// typesOf tells the types of paths that a single output writes, and of the declared members of what it writes.
func (f *flow) typesOf() map[string]string {
	writers := f.writers()
	types := map[string]string{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for port, target := range n.Outputs {
			r, err := parseTarget(target)
			if err != nil || !sole(r, writers) {
				continue
			}
			types[r.path()] = f.portType(n, port)
			if port != "result" || n.Op != OpToolCall {
				continue
			}
			for _, field := range f.tools[n.Tool].Outputs {
				if at := r.path() + "." + strconv.Quote(field.Name); field.Required && writers[at] == 0 {
					types[at] = fieldType(field.Type)
				}
			}
		}
	}
	return types
}

// writers counts what writes to each path.
func (f *flow) writers() map[string]int {
	count := map[string]int{}
	for i := range f.Nodes {
		for _, r := range targets(&f.Nodes[i]) {
			count[r.path()]++
			if f.keeps && f.owner != nil && r.root == "$vars" { // in the body of a LOOP: others may have written before
				count[r.path()]++
			}
		}
		for _, r := range f.strewn(i) {
			count[r.path()] += 2
		}
		for _, c := range f.Nodes[i].Catch {
			if r, err := parseTarget(c.Bind); err == nil {
				count[r.path()]++
			}
		}
	}
	return count
}

// sole reports whether nothing else writes to r or above it.
func sole(r ref, writers map[string]int) bool {
	for _, p := range r.prefixes()[:len(r.segs)-1] {
		if writers[p] > 0 {
			return false
		}
	}
	return writers[r.path()] == 1
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
		if expr, err := decodeValue(n.Inputs[port]); err == nil && len(n.Projection[port]) == 0 {
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
