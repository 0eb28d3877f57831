package ir

// ForksSprites reports whether each iteration of the MAP, each branch of the PARALLEL, or each attempt of the TOOL_CALL n
// runs in its own fork of the sprite, taken when n starts. Writes in a fork are not visible to other forks or after n, so
// forks may write concurrently. They are removed when the run has ended, unless n has keep_sprite.
func (n *Node) ForksSprites() bool { return n.Sprite == spriteFork }

// CopiesInside reports whether a call inside n runs in its own fork of the sprite.
func (p *Program) CopiesInside(n *Node) bool {
	found, searched := false, map[string]bool{} // subgraphs
	var visit func(n *Node, _ string)
	visit = func(n *Node, _ string) {
		found = found || n.Op == OpToolCall && n.ForksSprites()
		if n.Op == OpSubgraph && !searched[n.Ref] && p.subgraphOf(n.Ref).Body != nil {
			searched[n.Ref] = true
			WalkNodes(p.subgraphOf(n.Ref).Nodes, "", visit)
		}
	}
	for _, b := range n.InnerGraphs() {
		WalkNodes(b.Nodes, "", visit)
	}
	if n.Op == OpSubgraph {
		visit(n, "")
	}
	return found
}

// CopiesSprites lists the nodes that need a host which can fork sprites, in the order of the document.
func (p *Program) CopiesSprites() []*Node {
	var all []*Node
	p.Walk(func(n *Node, _ int) {
		if n.ForksSprites() {
			all = append(all, n)
		}
	})
	return all
}

func (d *Document) MaxParallel() int {
	if l := d.Limits; l != nil && l.MaxParallel > 0 {
		return l.MaxParallel
	}
	return DefaultMaxParallel
}
