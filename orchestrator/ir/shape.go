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

// shape tells for each written path which members its value can have, where all its writers declare them.
func (f *flow) shape() map[string][]string {
	shapes, open := map[string][]string{}, map[string]bool{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for port, target := range n.Outputs {
			r, err := parseTarget(target)
			if err != nil {
				continue
			}
			ports := f.ports(n)
			if port != "result" || ports == nil || !telling(n) {
				open[r.path()] = true
			}
			shapes[r.path()] = append(shapes[r.path()], ports...)
			for _, p := range r.prefixes()[:len(r.segs)-1] {
				open[p] = true
			}
		}
		for _, c := range n.Catch {
			if r, err := parseTarget(c.Bind); err == nil {
				open[r.path()] = true
			}
		}
		for target := range n.Set {
			if r, err := parseTarget(target); err == nil {
				open[r.path()] = true
			}
		}
		for _, r := range f.strewn(i) {
			for _, p := range r.prefixes() {
				open[p] = true
			}
		}
	}
	if f.keeps && f.owner != nil { // what a LOOP's body reads may have been written before the LOOP
		maps.DeleteFunc(shapes, func(p string, _ []string) bool { return kept(p) })
	}
	maps.DeleteFunc(shapes, func(p string, _ []string) bool { return open[p] })
	f.shapes = shapes
	for range 4 { // a PACK of what a PACK has packed
		f.shapePacks()
	}
	return shapes
}

// telling reports whether the ports of n are all the members of its result.
func telling(n *Node) bool {
	switch n.Op {
	case OpHuman, OpMap, OpLoop, OpSubgraph:
		return false
	case OpParallel:
		return n.Join != JoinAny
	}
	return true
}

// shapePacks adds the shapes of what PACKs put into their results.
func (f *flow) shapePacks() {
	writers := f.writers()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		r, err := parseTarget(n.Outputs["result"])
		if n.Op != OpPack || err != nil || !sole(r, writers) {
			continue
		}
		for name, input := range n.Inputs {
			at := r.path() + "." + strconv.Quote(name)
			if members, ok := f.members(input, n.Projection[name]); ok && writers[at] == 0 {
				f.shapes[at] = members
			}
		}
	}
}

// members lists those that the value of an expression can have, of which only those named by pick are kept.
func (f *flow) members(text json.RawMessage, pick []string) (names []string, known bool) {
	expr, err := decodeValue(text)
	if err != nil {
		return nil, false
	}
	if len(pick) == 0 {
		pick = picked(expr)
	}
	if len(pick) > 0 {
		for _, p := range pick {
			name, _, _ := strings.Cut(p, ".")
			names = append(names, name)
		}
		return names, true
	}
	if r, ok := subject(expr); ok {
		return f.shapeOf(r.path())
	}
	object, ok := expr.(map[string]any)
	if !ok || operator(object) != "" {
		return nil, false
	}
	return slices.Sorted(maps.Keys(object)), true
}

// picked is the pick of a reference with options.
func picked(expr any) []string {
	object, ok := expr.(map[string]any)
	if !ok || operator(object) != "ref" {
		return nil
	}
	names, _ := stringList(object["pick"])
	return names
}

// subject is the reference that an expression is, if it can be followed and nothing else may stand for it.
func subject(expr any) (ref, bool) {
	if object, ok := expr.(map[string]any); ok && operator(object) == "ref" {
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
	return r, err == nil && len(r.segs) > 0 && len(r.names()) == len(r.segs)
}

// checkPicks refuses to pick members that can never be there. Others that are missing are left out when the node runs.
func (f *flow) checkPicks(n *Node, ptr string) {
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		expr, err := decodeValue(n.Inputs[name])
		if err != nil {
			continue
		}
		pick, at := n.Projection[name], ptr+"/projection/"+escapePointer(name)
		if len(pick) == 0 {
			pick, at = picked(expr), ptr+"/inputs/"+escapePointer(name)+"/pick"
		}
		r, ok := subject(expr)
		if !ok {
			continue
		}
		if got := f.typeOf(r.path()); len(pick) > 0 && slices.Contains([]string{"a number", "a string", "a boolean", "null"}, got) {
			f.error("pick_type", at, "leave pick out, or [] to keep it whole", "%s is %s, of which there are no members to pick", r, got)
			continue
		}
		known, ok := f.shapeOf(r.path())
		for j, p := range pick {
			if member, _, _ := strings.Cut(p, "."); ok && !slices.Contains(known, member) {
				f.error("member_unknown", fmt.Sprintf("%s/%d", at, j), near(member, known), "%s never has a member %q to pick", r, member)
			}
		}
	}
}
