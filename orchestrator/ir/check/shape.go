package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Shapes: which members the values of written paths can have, as far as that is known before the run.

// inferShapes tells for each written path which members its value can have, where all its writers declare them.
func (f *flow) inferShapes() map[string][]string {
	shapes, open := map[string][]string{}, map[string]bool{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for port, target := range n.Outputs {
			r, err := expr.ParseTarget(target)
			if err != nil {
				continue
			}
			ports := f.portsOf(n)
			if port != "result" || ports == nil || !portsAreComplete(n) {
				open[r.StaticPath()] = true
			}
			shapes[r.StaticPath()] = append(shapes[r.StaticPath()], ports...)
			for _, p := range r.Prefixes()[:len(r.Segs)-1] {
				open[p] = true
			}
		}
		for _, c := range n.Catch {
			if r, err := expr.ParseTarget(c.Bind); err == nil {
				open[r.StaticPath()] = true
			}
		}
		for target := range n.Set {
			if r, err := expr.ParseTarget(target); err == nil {
				open[r.StaticPath()] = true
			}
		}
		for _, r := range f.loopWrites(i) {
			for _, p := range r.Prefixes() {
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
func portsAreComplete(n *ir.Node) bool {
	switch n.Op {
	case ir.OpHuman, ir.OpMap, ir.OpLoop, ir.OpSubgraph:
		return false
	case ir.OpParallel:
		return n.Join != ir.JoinAny
	}
	return true
}

// shapePacks adds the shapes of the members of PACK results.
func (f *flow) shapePacks() {
	writers := f.countWriters()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		r, err := expr.ParseTarget(n.Outputs["result"])
		if n.Op != ir.OpPack || err != nil || !hasSoleWriter(r, writers) {
			continue
		}
		for name, input := range n.Inputs {
			at := r.StaticPath() + "." + strconv.Quote(name)
			if members, ok := f.membersOf(input, n.Projection[name]); ok && writers[at] == 0 {
				f.shapes[at] = members
			}
		}
	}
}

// membersOf lists those that the value of an expression can have, of which only those named by pick are kept.
func (f *flow) membersOf(text json.RawMessage, pick []string) (names []string, known bool) {
	expression, err := expr.Decode(text)
	if err != nil {
		return nil, false
	}
	if len(pick) == 0 {
		pick = pickOf(expression)
	}
	if len(pick) > 0 {
		for _, p := range pick {
			name, _, _ := strings.Cut(p, ".")
			names = append(names, name)
		}
		return names, true
	}
	if r, ok := followedRef(expression); ok {
		return f.shapeOf(r.StaticPath())
	}
	object, ok := expression.(map[string]any)
	if !ok || expr.OperatorOf(object) != "" {
		return nil, false
	}
	return slices.Sorted(maps.Keys(object)), true
}

// pickOf is the pick of a reference with options.
func pickOf(expression any) []string {
	object, ok := expression.(map[string]any)
	if !ok || expr.OperatorOf(object) != "ref" {
		return nil
	}
	names, _ := expr.StringList(object["pick"])
	return names
}

// followedRef is the reference that an expression is, if it can be followed and nothing else may stand for it.
func followedRef(expression any) (expr.Ref, bool) {
	if object, ok := expression.(map[string]any); ok && expr.OperatorOf(object) == "ref" {
		if _, other := object["default"]; other {
			return expr.Ref{}, false
		}
		expression = object["ref"]
	}
	text, ok := expression.(string)
	if !ok || !expr.LooksLikeRef(text) {
		return expr.Ref{}, false
	}
	r, err := expr.ParseRef(text)
	return r, err == nil && len(r.Segs) > 0 && len(r.MemberNames()) == len(r.Segs)
}

// checkPicks refuses to pick members that can never be there. Others that are missing are left out when the node runs.
func (f *flow) checkPicks(n *ir.Node, ptr string) {
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		expression, err := expr.Decode(n.Inputs[name])
		if err != nil {
			continue
		}
		pick, at := n.Projection[name], ptr+"/projection/"+finding.EscapePointer(name)
		if len(pick) == 0 {
			pick, at = pickOf(expression), ptr+"/inputs/"+finding.EscapePointer(name)+"/pick"
		}
		r, ok := followedRef(expression)
		if !ok {
			continue
		}
		if got := f.typeOf(r.StaticPath()); len(pick) > 0 && slices.Contains([]string{"a number", "a string", "a boolean", "null"}, got) {
			f.AddError("pick_type", at, "leave pick out, or [] to keep it whole", "%s is %s and has no members to pick", r, got)
			continue
		}
		known, ok := f.shapeOf(r.StaticPath())
		for j, p := range pick {
			if member, _, _ := strings.Cut(p, "."); ok && !slices.Contains(known, member) {
				f.AddError("member_unknown", fmt.Sprintf("%s/%d", at, j), finding.Near(member, known), "%s never has a member %q to pick", r, member)
			}
		}
	}
}
