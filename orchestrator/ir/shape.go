package ir

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Shapes: which members the values of written paths can have, as far as that is known before the run.

// inferShapes tells for each written path which members its value can have, where all its writers declare them.
func (f *flow) inferShapes() map[string][]string {
	shapes, open := map[string][]string{}, map[string]bool{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for port, target := range n.Outputs {
			r, err := parseTarget(target)
			if err != nil {
				continue
			}
			ports := f.portsOf(n)
			if port != "result" || ports == nil || !portsAreComplete(n) {
				open[r.staticPath()] = true
			}
			shapes[r.staticPath()] = append(shapes[r.staticPath()], ports...)
			for _, p := range r.prefixes()[:len(r.segs)-1] {
				open[p] = true
			}
		}
		for _, c := range n.Catch {
			if r, err := parseTarget(c.Bind); err == nil {
				open[r.staticPath()] = true
			}
		}
		for target := range n.Set {
			if r, err := parseTarget(target); err == nil {
				open[r.staticPath()] = true
			}
		}
		for _, r := range f.loopWrites(i) {
			for _, p := range r.prefixes() {
				open[p] = true
			}
		}
	}
	if f.keeps && f.owner != nil { // the body of a LOOP may read values that were assigned before the LOOP
		maps.DeleteFunc(shapes, func(p string, _ []string) bool { return outlivesNode(p) })
	}
	maps.DeleteFunc(shapes, func(p string, _ []string) bool { return open[p] })
	f.shapes = shapes
	for range 4 { // depth of nested PACKs
		f.shapePacks()
	}
	return shapes
}

// portsAreComplete reports whether the ports of n are all the members of its result.
func portsAreComplete(n *Node) bool {
	switch n.Op {
	case OpHuman, OpMap, OpLoop, OpSubgraph:
		return false
	case OpParallel:
		return n.Join != JoinAny
	}
	return true
}

// shapePacks adds the shapes of the members of PACK results.
func (f *flow) shapePacks() {
	writers := f.countWriters()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		r, err := parseTarget(n.Outputs["result"])
		if n.Op != OpPack || err != nil || !hasSoleWriter(r, writers) {
			continue
		}
		for name, input := range n.Inputs {
			at := r.staticPath() + "." + strconv.Quote(name)
			if members, ok := f.membersOf(input, n.Projection[name]); ok && writers[at] == 0 {
				f.shapes[at] = members
			}
		}
	}
}

// membersOf lists those that the value of an expression can have, of which only those named by pick are kept.
func (f *flow) membersOf(text json.RawMessage, pick []string) (names []string, known bool) {
	expr, err := Decode(text)
	if err != nil {
		return nil, false
	}
	if len(pick) == 0 {
		pick = pickOf(expr)
	}
	if len(pick) > 0 {
		for _, p := range pick {
			name, _, _ := strings.Cut(p, ".")
			names = append(names, name)
		}
		return names, true
	}
	if r, ok := followedRef(expr); ok {
		return f.shapeOf(r.staticPath())
	}
	object, ok := expr.(map[string]any)
	if !ok || operatorOf(object) != "" {
		return nil, false
	}
	return slices.Sorted(maps.Keys(object)), true
}

// pickOf is the pick of a reference with options.
func pickOf(expr any) []string {
	object, ok := expr.(map[string]any)
	if !ok || operatorOf(object) != "ref" {
		return nil
	}
	names, _ := stringList(object["pick"])
	return names
}

// followedRef is the reference that an expression is, if it can be followed and nothing else may stand for it.
func followedRef(expr any) (ref, bool) {
	if object, ok := expr.(map[string]any); ok && operatorOf(object) == "ref" {
		if _, other := object["default"]; other {
			return ref{}, false
		}
		expr = object["ref"]
	}
	text, ok := expr.(string)
	if !ok || !looksLikeRef(text) {
		return ref{}, false
	}
	r, err := parseRef(text)
	return r, err == nil && len(r.segs) > 0 && len(r.memberNames()) == len(r.segs)
}

// checkPicks refuses to pick members that can never be there. Others that are missing are left out when the node runs.
func (f *flow) checkPicks(n *Node, ptr string) {
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		expr, err := Decode(n.Inputs[name])
		if err != nil {
			continue
		}
		pick, at := n.Projection[name], ptr+"/projection/"+escapePointer(name)
		if len(pick) == 0 {
			pick, at = pickOf(expr), ptr+"/inputs/"+escapePointer(name)+"/pick"
		}
		r, ok := followedRef(expr)
		if !ok {
			continue
		}
		if got := f.typeOf(r.staticPath()); len(pick) > 0 && slices.Contains([]string{"a number", "a string", "a boolean", "null"}, got) {
			f.addError("pick_type", at, "leave pick out, or [] to keep it whole", "%s is %s and has no members to pick", r, got)
			continue
		}
		known, ok := f.shapeOf(r.staticPath())
		for j, p := range pick {
			if member, _, _ := strings.Cut(p, "."); ok && !slices.Contains(known, member) {
				f.addError("member_unknown", fmt.Sprintf("%s/%d", at, j), Near(member, known), "%s never has a member %q to pick", r, member)
			}
		}
	}
}
