package check

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// link is an edge or a catch, as the graph sees it.
type link struct {
	to      int
	ptr     string
	edge    *ir.Edge  // nil for a catch
	caught  *ir.Catch // nil for an edge
	bounded bool      // may close a cycle
}

// linksOf returns the ways out of every node, edges in the order in which they are tried, then catches.
func (g *graph) linksOf() [][]link {
	out := make([][]link, len(g.Nodes))
	for _, i := range ir.EdgeOrder(g.Edges) {
		e := &g.Edges[i]
		from, okFrom := g.index[e.From]
		to, okTo := g.index[e.To]
		if okFrom && okTo {
			out[from] = append(out[from], link{to: to, ptr: g.edgePtr(i), edge: e, bounded: e.MaxTraversals > 0})
		}
	}
	for i := range g.Nodes {
		for j := range g.Nodes[i].Catch {
			c := &g.Nodes[i].Catch[j]
			if to, ok := g.index[c.To]; ok {
				out[i] = append(out[i], link{to: to, ptr: fmt.Sprintf("%s/catch/%d", g.nodePtr(i), j), caught: c})
			}
		}
	}
	return out
}

func (g *graph) checkEdges() {
	for i, e := range g.Edges {
		at := g.edgePtr(i)
		g.checkTarget(e.From, at+"/from")
		g.checkTarget(e.To, at+"/to")
		if e.MaxTraversals < 0 || e.MaxTraversals > 1e6 {
			g.AddError("limit_invalid", at+"/max_traversals", `"max_traversals": 10`, "max_traversals is between 1 and 1000000")
		}
	}
	links := g.linksOf()
	for i := range g.Nodes {
		g.checkExclusive(&g.Nodes[i], links[i])
	}
	g.checkReachable(links)
	g.checkCycles(links)
}

// checkExclusive checks the edges that leave one node: the first true one wins, so at most one is unconditional and
// nothing stands behind it.
func (g *graph) checkExclusive(n *ir.Node, links []link) {
	edges := slices.DeleteFunc(slices.Clone(links), func(l link) bool { return l.edge == nil })
	closed := "" // pointer of the edge that always takes the rest
	for _, l := range edges {
		when := l.edge.When
		_, isCase := when.IsCase()
		switch {
		case isCase && n.Op != ir.OpSwitch:
			g.AddError("cond_misplaced", l.ptr+"/when", "write a comparison, or lead the edge from a SWITCH", `"case" is a condition behind a SWITCH; %s is %s`, n.ID, n.Op)
		case !isCase && !when.IsOtherwise() && n.Op == ir.OpSwitch:
			g.AddError("cond_misplaced", l.ptr+"/when", `{"op":"case","is":"name"}`, "edges behind a SWITCH choose by case")
		case closed != "" && when.IsOtherwise():
			g.AddError("otherwise_misplaced", l.ptr+"/when", "otherwise may occur once, on the last edge of its node", "the edge at %s takes the rest already", closed)
		case closed != "" && when.IsAlways():
			g.AddError("edges_ambiguous", l.ptr, "exactly one edge is taken; give one of them a condition", "the edge at %s is unconditional too", closed)
		case closed != "":
			g.AddError("edge_unreachable", l.ptr, "put the unconditional edge last", "the edge at %s is always taken before", closed)
		}
		if when.IsAlways() || when.IsOtherwise() {
			closed = l.ptr
		}
	}
	if n.Op == ir.OpSwitch {
		g.checkCaseEdges(n, edges)
	}
}

// checkCaseEdges checks that a SWITCH has exactly one edge for each case and one for its default.
func (g *graph) checkCaseEdges(n *ir.Node, edges []link) {
	ptr := g.nodePtr(g.index[n.ID])
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
				g.AddError("switch_default_missing", l.ptr+"/when", `name the default: "default":"other"`, "without a default nothing leads here: %s fails when no case matches", n.ID)
			}
		case !isCase:
		case !slices.Contains(names, name):
			g.AddError("case_unknown", l.ptr+"/when/is", finding.Near(name, names), "%s has no case %q", n.ID, name)
		case taken[name]:
			g.AddError("case_edge_duplicate", l.ptr, "remove one of the two edges", "the case %q of %s has an edge already", name, n.ID)
		}
		taken[name] = taken[name] || isCase
	}
	for _, name := range names {
		if !taken[name] && !(rest && name == n.Default) {
			g.AddError("case_edge_missing", ptr+"/cases", `{"from":"`+n.ID+`","to":…,"when":{"op":"case","is":"`+name+`"}}`, "no edge leaves %s for the case %q", n.ID, name)
		}
	}
	if rest && taken[n.Default] {
		g.AddError("case_edge_duplicate", ptr+"/default", "remove one of the two", "the default %q of %s has a case edge and an otherwise edge", n.Default, n.ID)
	}
}

func (g *graph) checkReachable(links [][]link) {
	entry, ok := g.index[g.EntryNode]
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
	for i := range g.Nodes {
		if id := g.Nodes[i].ID; !seen[i] && g.index[id] == i {
			g.AddError("node_unreachable", g.nodePtr(i), "add an edge to it or remove it", "no path leads from %s to %s", g.EntryNode, id)
		}
	}
}

// checkCycles reports every link that closes a cycle in which no edge has max_traversals.
func (g *graph) checkCycles(links [][]link) {
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
				g.AddError("cycle_unbounded", l.ptr+"/to", "use retry, or lead back by an edge with max_traversals", "the catch leads back to %s", g.Nodes[l.to].ID)
			case colour[l.to] == grey:
				g.AddError("cycle_unbounded", l.ptr, `say how often: "max_traversals": 3`, "the edge leads back to %s and the cycle has no limit", g.Nodes[l.to].ID)
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
