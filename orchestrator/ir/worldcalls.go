package ir

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
)

// WorldCalls names the skills of class world that the program calls, or may call to take something back, but for those in
// approved.
func (p *Program) WorldCalls(approved []string) []string {
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
		class, _ := p.Needs(n)
		add(n.Tool, class)
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
