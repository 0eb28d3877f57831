package ir

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Inner is a graph that a node runs: the body of a MAP or LOOP, a branch of a PARALLEL, the document of a SUBGRAPH.
type Inner struct {
	*Body
	Name   string          // of a branch
	Result json.RawMessage // value expression; nil: the output of the last node, of a SUBGRAPH all its $vars
}

// innerGraphs returns the graphs that stand inside of n, in their order. That of a SUBGRAPH stands elsewhere.
func (n *Node) innerGraphs() []Inner {
	var all []Inner
	if n.Body != nil {
		all = append(all, Inner{Body: n.Body, Result: n.Result})
	}
	for _, b := range n.Branches {
		if b.Body != nil {
			all = append(all, Inner{Body: b.Body, Name: b.Name, Result: b.Result})
		}
	}
	return all
}

// inner returns the pointers of the graphs and of their results, below that of n.
func (n *Node) innerPtrs(ptr string) (bodies, results []string) {
	if n.Body != nil {
		bodies, results = append(bodies, ptr+"/body"), append(results, ptr+"/result")
	}
	for i, b := range n.Branches {
		if at := fmt.Sprintf("%s/branches/%d", ptr, i); b.Body != nil {
			bodies, results = append(bodies, at+"/body"), append(results, at+"/result")
		}
	}
	return bodies, results
}

// walkNodes visits nodes in depth-first order, each before those of the graphs inside it. ptr is the pointer of the
// object that holds the nodes.
func walkNodes(nodes []Node, ptr string, visit func(n *Node, ptr string)) {
	for i := range nodes {
		n, at := &nodes[i], fmt.Sprintf("%s/nodes/%d", ptr, i)
		visit(n, at)
		ptrs, _ := n.innerPtrs(at)
		for j, b := range n.innerGraphs() {
			walkNodes(b.Nodes, ptrs[j], visit)
		}
	}
}

// countParts counts the nodes and edges of a document with those of the graphs inside.
func (d *Document) countParts() (nodes, edges int) {
	edges = len(d.Edges)
	walkNodes(d.Nodes, "", func(n *Node, _ string) {
		nodes++
		for _, b := range n.innerGraphs() {
			edges += len(b.Edges)
		}
	})
	return nodes, edges
}

// splitRef reads "name@sha256:…".
func splitRef(text string) (name, digest string, ok bool) {
	name, digest, ok = strings.Cut(text, "@")
	return name, digest, ok && idPattern().MatchString(name) && digestPattern().MatchString(digest)
}

// checkSubgraphs checks the documents that SUBGRAPH nodes refer to, each as one of its own, and returns those that are
// valid. A subgraph cannot define subgraphs: all of them are members of the top-level document.
func (v *validator) checkSubgraphs(lookup toolLookup) map[string]Document {
	sound := map[string]Document{}
	for _, name := range slices.Sorted(maps.Keys(v.doc.Subgraphs)) {
		sub, ptr := v.doc.Subgraphs[name], "/subgraphs/"+escapePointer(name)
		if !idPattern().MatchString(name) {
			v.addError("id_invalid", ptr, "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for a subgraph", name)
		}
		r := report{}
		doc, ok := parseDocument(sub.Document, &r, v, lookup)
		for _, f := range r.sortedFindings() {
			f.Pointer = ptr + "/document" + f.Pointer
			v.findings = append(v.findings, f)
		}
		if got, err := digestOf(sub.Document); err != nil || got != sub.Digest {
			v.addError("subgraph_digest", ptr+"/digest", got, "the document of %s has the digest %s, not %s", name, got, inShort(sub.Digest))
		}
		if ok && doc.Subgraphs != nil {
			v.addError("field_not_allowed", ptr+"/document/subgraphs", "move them to the subgraphs of the top-level document", "a subgraph has no subgraphs of its own")
		}
		if ok && doc.Limits != nil {
			v.addError("field_not_allowed", ptr+"/document/limits", "the limits of the top-level document apply", "a subgraph has no limits of its own")
		}
		if ok {
			sound[name] = doc
		}
	}
	v.checkRecursion(sound)
	return sound
}

// checkRecursion refuses subgraphs that run themselves.
func (v *validator) checkRecursion(subs map[string]Document) {
	const onTheWay, done = 1, 2
	state := map[string]int{}
	var visit func(name string)
	visit = func(name string) {
		state[name] = onTheWay
		doc := subs[name]
		walkNodes(doc.Nodes, "/subgraphs/"+escapePointer(name)+"/document", func(n *Node, ptr string) {
			to, _, ok := splitRef(n.Ref)
			if _, known := subs[to]; n.Op != OpSubgraph || !ok || !known {
				return
			}
			switch state[to] {
			case onTheWay:
				v.addError("subgraph_recursive", ptr+"/ref", "a LOOP repeats, with a bound", "%s leads back to the subgraph %s, in which it is", n.ID, to)
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

func (g *graph) checkSubgraph(n *Node, ptr string) {
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		g.checkExprText(n.Inputs[name], ptr+"/inputs/"+escapePointer(name))
	}
	name, pin, ok := splitRef(n.Ref)
	if !ok {
		g.addError("subgraph_ref", ptr+"/ref", `"ref": "name@sha256:…"`, "SUBGRAPH names a subgraph and pins its digest; %s does not", inShort(n.Ref))
		return
	}
	sub, known := g.top.doc.Subgraphs[name]
	switch {
	case !known:
		g.addError("subgraph_unknown", ptr+"/ref", cmp.Or(Near(name, slices.Sorted(maps.Keys(g.top.doc.Subgraphs))), "add it to subgraphs, with its digest"), "there is no subgraph %q", name)
	case sub.Digest != pin:
		g.addError("subgraph_digest", ptr+"/ref", name+"@"+sub.Digest, "%s pins another digest than that of the subgraph %s", n.ID, name)
	}
	if doc, sound := g.top.subs[name]; sound {
		g.checkSubgraphInputs(n, &doc, ptr)
	}
}

// prefixIDs returns the graph of a subgraph with "name:" before each id, so that one table can hold the nodes of all
// subgraphs. An id of a document cannot contain a colon.
func (d *Document) prefixIDs(name string) Inner {
	return Inner{Body: renameNodes(&Body{EntryNode: d.EntryNode, Nodes: d.Nodes, Edges: d.Edges}, name+":"), Result: d.Output}
}

func renameNodes(b *Body, prefix string) *Body {
	out := &Body{EntryNode: prefix + b.EntryNode, Nodes: slices.Clone(b.Nodes), Edges: slices.Clone(b.Edges)}
	for i := range out.Edges {
		out.Edges[i].From, out.Edges[i].To = prefix+out.Edges[i].From, prefix+out.Edges[i].To
	}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.ID = prefix + n.ID
		n.Catch = slices.Clone(n.Catch)
		for j := range n.Catch {
			n.Catch[j].To = prefix + n.Catch[j].To
		}
		if n.Body != nil {
			n.Body = renameNodes(n.Body, prefix)
		}
		n.Branches = slices.Clone(n.Branches)
		for j := range n.Branches {
			n.Branches[j].Body = renameNodes(n.Branches[j].Body, prefix)
		}
	}
	return out
}
