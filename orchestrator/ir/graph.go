package ir

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// link is an edge or a catch, as the graph sees it.
type link struct {
	to      int
	ptr     string
	edge    *Edge  // nil for a catch
	caught  *Catch // nil for an edge
	bounded bool   // may close a cycle
}

// links returns the ways out of every node, edges in the order in which they are tried, then catches.
func (v *validator) links() [][]link {
	out := make([][]link, len(v.doc.Nodes))
	for _, i := range edgeOrder(v.doc.Edges) {
		e := &v.doc.Edges[i]
		from, okFrom := v.index[e.From]
		to, okTo := v.index[e.To]
		if okFrom && okTo {
			out[from] = append(out[from], link{to: to, ptr: "/edges/" + strconv.Itoa(i), edge: e, bounded: e.MaxTraversals > 0})
		}
	}
	for i := range v.doc.Nodes {
		for j := range v.doc.Nodes[i].Catch {
			c := &v.doc.Nodes[i].Catch[j]
			if to, ok := v.index[c.To]; ok {
				out[i] = append(out[i], link{to: to, ptr: fmt.Sprintf("/nodes/%d/catch/%d", i, j), caught: c})
			}
		}
	}
	return out
}

// edgeOrder returns the positions of edges as they are tried: larger priority first, then array order.
func edgeOrder(edges []Edge) []int {
	order := make([]int, len(edges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(edges[b].Priority, edges[a].Priority) })
	return order
}

func (v *validator) checkGraph() {
	for i, e := range v.doc.Edges {
		at := "/edges/" + strconv.Itoa(i)
		v.checkTarget(e.From, at+"/from")
		v.checkTarget(e.To, at+"/to")
		if e.MaxTraversals < 0 || e.MaxTraversals > 1e6 {
			v.error("limit_invalid", at+"/max_traversals", "", "max_traversals is between 1 and 1000000")
		}
	}
	links := v.links()
	for i := range v.doc.Nodes {
		v.checkExclusive(&v.doc.Nodes[i], links[i])
	}
	v.checkReachable(links)
	v.checkCycles(links)
}

// checkExclusive checks the edges that leave one node: the first true one wins, so at most one is unconditional and
// nothing stands behind it.
func (v *validator) checkExclusive(n *Node, links []link) {
	edges := slices.DeleteFunc(slices.Clone(links), func(l link) bool { return l.edge == nil })
	closed := "" // pointer of the edge that always takes the rest
	for _, l := range edges {
		when := l.edge.When
		_, isCase := when.IsCase()
		switch {
		case isCase && n.Op != OpSwitch:
			v.error("cond_misplaced", l.ptr+"/when", "", `"case" is a condition behind a SWITCH; %s is %s`, n.ID, n.Op)
		case !isCase && !when.IsOtherwise() && n.Op == OpSwitch:
			v.error("cond_misplaced", l.ptr+"/when", `{"op":"case","is":"name"}`, "edges behind a SWITCH choose by case")
		case closed != "" && when.IsOtherwise():
			v.error("otherwise_misplaced", l.ptr+"/when", "otherwise stands once, as the last edge of its node", "the edge at %s takes the rest already", closed)
		case closed != "" && when.IsAlways():
			v.error("edges_ambiguous", l.ptr, "exactly one edge is taken; give one of them a condition", "the edge at %s is unconditional too", closed)
		case closed != "":
			v.error("edge_unreachable", l.ptr, "put the unconditional edge last", "the edge at %s is always taken before", closed)
		}
		if when.IsAlways() || when.IsOtherwise() {
			closed = l.ptr
		}
	}
	if n.Op == OpSwitch {
		v.checkCaseEdges(n, edges)
	}
}

// checkCaseEdges checks that a SWITCH has exactly one edge for each case and one for its default.
func (v *validator) checkCaseEdges(n *Node, edges []link) {
	ptr := "/nodes/" + strconv.Itoa(v.index[n.ID])
	names := []string{}
	for _, c := range n.Cases {
		names = append(names, c.Name)
	}
	if n.Default != "" && !slices.Contains(names, n.Default) {
		names = append(names, n.Default)
	}
	taken, rest := map[string]bool{}, false
	for _, l := range edges {
		name, isCase := l.edge.When.IsCase()
		switch {
		case l.edge.When.IsOtherwise():
			if rest = true; n.Default == "" {
				v.error("switch_default_missing", l.ptr+"/when", `name the default: "default":"other"`, "without a default nothing leads here: %s fails when no case matches", n.ID)
			}
		case !isCase:
		case !slices.Contains(names, name):
			v.error("case_unknown", l.ptr+"/when/is", near(name, names), "%s has no case %q", n.ID, name)
		case taken[name]:
			v.error("case_edge_duplicate", l.ptr, "", "the case %q of %s has an edge already", name, n.ID)
		}
		taken[name] = taken[name] || isCase
	}
	for _, name := range names {
		if !taken[name] && !(rest && name == n.Default) {
			v.error("case_edge_missing", ptr+"/cases", `{"from":"`+n.ID+`","to":…,"when":{"op":"case","is":"`+name+`"}}`, "no edge leaves %s for the case %q", n.ID, name)
		}
	}
	if rest && taken[n.Default] {
		v.error("case_edge_duplicate", ptr+"/default", "remove one of the two", "the default %q of %s has a case edge and an otherwise edge", n.Default, n.ID)
	}
}

func (v *validator) checkReachable(links [][]link) {
	entry, ok := v.index[v.doc.EntryNode]
	if !ok {
		return
	}
	seen := make([]bool, len(links))
	seen[entry] = true
	for stack := []int{entry}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, l := range links[at] {
			if !seen[l.to] {
				seen[l.to] = true
				stack = append(stack, l.to)
			}
		}
	}
	for i := range v.doc.Nodes {
		if id := v.doc.Nodes[i].ID; !seen[i] && v.index[id] == i {
			v.error("node_unreachable", "/nodes/"+strconv.Itoa(i), "add an edge to it or remove it", "no path leads from %s to %s", v.doc.EntryNode, id)
		}
	}
}

// checkCycles reports every link that closes a cycle in which no edge has max_traversals.
func (v *validator) checkCycles(links [][]link) {
	const (
		white = iota
		grey
		black
	)
	colour := make([]uint8, len(links))
	var visit func(at int)
	visit = func(at int) {
		colour[at] = grey
		for _, l := range links[at] {
			switch {
			case l.bounded:
			case colour[l.to] == grey && l.edge == nil:
				v.error("cycle_unbounded", l.ptr+"/to", "use retry, or lead back by an edge with max_traversals", "the catch leads back to %s", v.doc.Nodes[l.to].ID)
			case colour[l.to] == grey:
				v.error("cycle_unbounded", l.ptr, `say how often: "max_traversals": 3`, "the edge leads back to %s and nothing bounds the cycle", v.doc.Nodes[l.to].ID)
			case colour[l.to] == white:
				visit(l.to)
			}
		}
		colour[at] = black
	}
	for i := range links {
		if colour[i] == white {
			visit(i)
		}
	}
}
