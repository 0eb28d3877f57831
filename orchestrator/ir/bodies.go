package ir

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Inner is a graph that a node runs: the body of a MAP or LOOP, a branch of a PARALLEL, the document of a SUBGRAPH.
type Inner struct {
	*Body
	Name   string          // of a branch
	Result json.RawMessage // value expression; nil: the output of the last node, of a SUBGRAPH all its $vars
}

// InnerGraphs returns the graphs that stand inside of n, in their order. That of a SUBGRAPH stands elsewhere.
func (n *Node) InnerGraphs() []Inner {
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

// InnerPtrs returns the pointers of the graphs and of their results, below that of n.
func (n *Node) InnerPtrs(ptr string) (bodies, results []string) {
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

// WalkNodes visits nodes in depth-first order, each before those of the graphs inside it. ptr is the pointer of the
// object that holds the nodes.
func WalkNodes(nodes []Node, ptr string, visit func(n *Node, ptr string)) {
	for i := range nodes {
		n, at := &nodes[i], fmt.Sprintf("%s/nodes/%d", ptr, i)
		visit(n, at)
		ptrs, _ := n.InnerPtrs(at)
		for j, b := range n.InnerGraphs() {
			WalkNodes(b.Nodes, ptrs[j], visit)
		}
	}
}

// CountParts counts the nodes and edges of a document with those of the graphs inside.
func (d *Document) CountParts() (nodes, edges int) {
	edges = len(d.Edges)
	WalkNodes(d.Nodes, "", func(n *Node, _ string) {
		nodes++
		for _, b := range n.InnerGraphs() {
			edges += len(b.Edges)
		}
	})
	return nodes, edges
}

// SplitSubgraphRef reads "name@sha256:…".
func SplitSubgraphRef(text string) (name, digest string, ok bool) {
	name, digest, ok = strings.Cut(text, "@")
	return name, digest, ok && IDPattern().MatchString(name) && digestPattern().MatchString(digest)
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
		n.Approves = slices.Clone(n.Approves)
		for j := range n.Approves {
			n.Approves[j] = prefix + n.Approves[j]
		}
		if n.Restore != "" {
			n.Restore = prefix + n.Restore
		}
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
