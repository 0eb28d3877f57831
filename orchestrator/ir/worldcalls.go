package ir

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
)

// WorldCalls names the skills of class world that the program calls, or may call to take something back, but for those in
// approved.
func (p *Program) WorldCalls(approved []string) []string { return p.worldCalls(approved, nil) }

// UnplannedWorldCalls is WorldCalls without the skills all of whose calls HUMAN nodes approve.
func (p *Program) UnplannedWorldCalls(approved []string) []string {
	planned := map[string]bool{}
	p.Walk(func(n *Node, _ int) {
		for _, id := range n.Approves {
			planned[id] = true
		}
	})
	return p.worldCalls(approved, planned)
}

// ApproversOf names the HUMAN nodes that approve the call of a node.
func (p *Program) ApproversOf(id string) (humans []string) {
	p.Walk(func(n *Node, _ int) {
		if slices.Contains(n.Approves, id) {
			humans = append(humans, n.ID)
		}
	})
	return humans
}

func (p *Program) worldCalls(approved []string, planned map[string]bool) []string {
	var out []string
	add := func(tool, class string) {
		if manifests.Class(class) == manifests.ClassWorld && !slices.Contains(approved, tool) && !slices.Contains(out, tool) {
			out = append(out, tool)
		}
	}
	visit := func(n *Node, _ string) {
		if n.Op != OpToolCall {
			return
		}
		if class, _ := p.Needs(n); !planned[n.ID] {
			add(n.Tool, class)
		}
		if c := n.Compensate; c != nil {
			class, _, _ := EffectiveClass(p.Tools[c.Tool], c.Args)
			add(c.Tool, string(class))
		}
	}
	WalkNodes(p.Doc.Nodes, "", visit)
	for _, s := range p.subs {
		WalkNodes(s.Nodes, "", visit)
	}
	slices.Sort(out)
	return out
}
