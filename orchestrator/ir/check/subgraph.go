package check

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// checkSubgraphs checks the documents that SUBGRAPH nodes refer to, each as one of its own, and returns those that are
// valid. A subgraph cannot define subgraphs: all of them are members of the top-level document.
func (v *validator) checkSubgraphs(lookup ir.ToolLookup) map[string]ir.Document {
	sound := map[string]ir.Document{}
	for _, name := range slices.Sorted(maps.Keys(v.doc.Subgraphs)) {
		sub, ptr := v.doc.Subgraphs[name], "/subgraphs/"+finding.EscapePointer(name)
		if !ir.IDPattern().MatchString(name) {
			v.AddError("id_invalid", ptr, "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for a subgraph", name)
		}
		r := finding.Report{}
		doc, ok := parseDocument(sub.Document, &r, v, lookup)
		for _, f := range r.SortedFindings() {
			f.Pointer = ptr + "/document" + f.Pointer
			v.Findings = append(v.Findings, f)
		}
		if got, err := ir.DigestOf(sub.Document); err != nil || got != sub.Digest {
			v.AddError("subgraph_digest", ptr+"/digest", got, "the document of %s has the digest %s, not %s", name, got, ir.InShort(sub.Digest))
		}
		if ok && doc.Subgraphs != nil {
			v.AddError("field_not_allowed", ptr+"/document/subgraphs", "move them to the subgraphs of the top-level document", "a subgraph has no subgraphs of its own")
		}
		if ok && doc.Limits != nil {
			v.AddError("field_not_allowed", ptr+"/document/limits", "the limits of the top-level document apply", "a subgraph has no limits of its own")
		}
		if ok {
			sound[name] = doc
		}
	}
	v.checkRecursion(sound)
	return sound
}

// checkRecursion refuses subgraphs that run themselves.
func (v *validator) checkRecursion(subs map[string]ir.Document) {
	const onTheWay, done = 1, 2
	state := map[string]int{}
	var visit func(name string)
	visit = func(name string) {
		state[name] = onTheWay
		doc := subs[name]
		ir.WalkNodes(doc.Nodes, "/subgraphs/"+finding.EscapePointer(name)+"/document", func(n *ir.Node, ptr string) {
			to, _, ok := ir.SplitSubgraphRef(n.Ref)
			if _, known := subs[to]; n.Op != ir.OpSubgraph || !ok || !known {
				return
			}
			switch state[to] {
			case onTheWay:
				v.AddError("subgraph_recursive", ptr+"/ref", "a LOOP repeats, with a bound", "%s leads back to the subgraph %s, in which it is", n.ID, to)
			case done:
			default:
				visit(to)
			}
		})
		state[name] = done
	}
	for _, name := range slices.Sorted(maps.Keys(subs)) {
		if state[name] == 0 {
			visit(name)
		}
	}
}

func (g *graph) checkSubgraph(n *ir.Node, ptr string) {
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		g.checkExprText(n.Inputs[name], ptr+"/inputs/"+finding.EscapePointer(name))
	}
	name, pin, ok := ir.SplitSubgraphRef(n.Ref)
	if !ok {
		g.AddError("subgraph_ref", ptr+"/ref", `"ref": "name@sha256:…"`, "SUBGRAPH names a subgraph and pins its digest; %s does not", ir.InShort(n.Ref))
		return
	}
	sub, known := g.top.doc.Subgraphs[name]
	switch {
	case !known:
		g.AddError("subgraph_unknown", ptr+"/ref", cmp.Or(finding.Near(name, slices.Sorted(maps.Keys(g.top.doc.Subgraphs))), "add it to subgraphs, with its digest"), "there is no subgraph %q", name)
	case sub.Digest != pin:
		g.AddError("subgraph_digest", ptr+"/ref", name+"@"+sub.Digest, "%s pins another digest than that of the subgraph %s", n.ID, name)
	}
	if doc, sound := g.top.subs[name]; sound {
		g.checkSubgraphInputs(n, &doc, ptr)
	}
}
