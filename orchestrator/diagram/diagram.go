// Package diagram draws flows: as text for a terminal, as SVG, and as Mermaid for documents that other programs draw.
//
// Start with Of, which makes a Graph of an ExecIR document, then Graph.Text, Graph.SVG or Graph.Mermaid. All of it is
// pure and deterministic. Text of the document's author is made harmless for a terminal when the graph is made, and
// for Mermaid and SVG when it is written.
package diagram

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// ErrTooLarge says that a drawing would be too large to read. Mermaid has no such bound.
var ErrTooLarge = errors.New("the flow is too large to be drawn")

// Bounds of a drawing, and of one text in it.
const (
	maxNodes = 200
	maxEdges = 400
	maxText  = 60
	maxCells = 4 << 20 // of a text
)

// Graph is a flow as it is drawn. The first node is the entry.
type Graph struct {
	Nodes []Node
	Edges []Edge
}

// Node is one box.
type Node struct {
	ID    string // in the document, "" for a branch
	Op    ir.Op
	Class string   // of the box in an SVG, for a style sheet; see Mark
	Lines []string // text of the box, the name first
	Body  *Graph   // graph inside the box
}

// Edge leads from one node to another, both by position.
type Edge struct {
	From, To int
	Label    string
	Catch    bool // taken on a failure
	Back     bool // closes a cycle
}

// Of makes the graph of a document. labels names nodes by their ids; those without a name are called by their id.
func Of(doc ir.Document, labels map[string]string) Graph {
	return buildGraph(doc.EntryNode, doc.Nodes, doc.Edges, labels)
}

func buildGraph(entry string, nodes []ir.Node, edges []ir.Edge, labels map[string]string) Graph {
	b := builder{index: map[string]int{}, edges: edges}
	for i := range nodes {
		if nodes[i].ID == entry {
			b.addNode(&nodes[i], labels)
		}
	}
	for i := range nodes {
		if nodes[i].ID != entry {
			b.addNode(&nodes[i], labels)
		}
	}
	for i := range nodes {
		b.addEdges(&nodes[i])
	}
	b.graph.markBack()
	return b.graph
}

type builder struct {
	graph Graph
	index map[string]int
	edges []ir.Edge
}

func (b *builder) addNode(n *ir.Node, labels map[string]string) {
	name := n.ID
	lines := []string{plainLine(name)}
	if label := labels[n.ID]; label != "" {
		lines = []string{plainLine(label), plainLine(name)}
	}
	b.index[n.ID] = len(b.graph.Nodes)
	b.graph.Nodes = append(b.graph.Nodes, Node{ID: n.ID, Op: n.Op, Lines: append(lines, describeNode(n)...), Body: bodyGraph(n, labels)})
}

// Mark shows how nodes stand, by their ids: a sign before the name, and a class for a style sheet.
func (g *Graph) Mark(find func(id string) (sign, class string)) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if sign, class := find(n.ID); n.ID != "" && sign != "" {
			n.Lines[0], n.Class = sign+" "+n.Lines[0], class
		}
		if n.Body != nil {
			n.Body.Mark(find)
		}
	}
}

// bodyGraph is the graph that a node runs, nil for most.
func bodyGraph(n *ir.Node, labels map[string]string) *Graph {
	if len(n.Branches) > 0 {
		var g Graph
		for _, b := range n.Branches {
			if b.Body != nil {
				inner := buildGraph(b.Body.EntryNode, b.Body.Nodes, b.Body.Edges, labels)
				g.Nodes = append(g.Nodes, Node{Op: ir.OpParallel, Lines: []string{plainLine(b.Name)}, Body: &inner})
			}
		}
		return &g
	}
	if n.Body == nil {
		return nil
	}
	g := buildGraph(n.Body.EntryNode, n.Body.Nodes, n.Body.Edges, labels)
	return &g
}

// describeNode describes the work of a node in a few words.
func describeNode(n *ir.Node) []string {
	var lines []string
	switch n.Op {
	case ir.OpToolCall:
		lines = append(lines, plainLine(n.Tool))
	case ir.OpHuman:
		lines = append(lines, "asks: "+plainLine(exprText(n.Prompt)))
	case ir.OpMap:
		lines = append(lines, plainLine("for each of "+exprText(n.Items)))
	case ir.OpParallel:
		lines = append(lines, map[string]string{ir.JoinAny: "until one succeeds", ir.JoinSettled: "until all have ended"}[n.Join])
		if lines[0] == "" {
			lines[0] = "all of"
		}
	case ir.OpLoop:
		how := "while " + condText(n.While)
		if n.Until != nil {
			how = "until " + condText(n.Until)
		}
		lines = append(lines, plainLine(how), fmt.Sprintf("at most %d×", n.MaxIterations))
	case ir.OpSubgraph:
		name, _, _ := strings.Cut(n.Ref, "@")
		lines = append(lines, plainLine("runs "+name))
	case ir.OpSet:
		lines = append(lines, plainLine("sets "+strings.Join(slices.Sorted(maps.Keys(n.Set)), ", ")))
	case ir.OpWait:
		if n.Seconds != nil {
			lines = append(lines, plainLine("waits "+exprText(n.Seconds)+" s"))
		} else {
			lines = append(lines, plainLine("waits until "+exprText(n.At)))
		}
	case ir.OpFail:
		lines = append(lines, plainLine("fails: "+exprText(n.Message)))
	case ir.OpMerge:
		lines = append(lines, plainLine("MERGE "+n.Strategy))
	default:
		lines = append(lines, plainLine(string(n.Op)))
	}
	if n.ForksSprites() {
		lines = append(lines, "in a copy of the sprite")
	}
	if n.Cache == ir.CacheRun {
		lines = append(lines, "once for equal input")
	}
	if n.TimeoutS > 0 && n.Op != ir.OpToolCall && !n.Op.LLM() {
		lines = append(lines, fmt.Sprintf("at most %g s", n.TimeoutS))
	}
	if n.Skip != nil {
		lines = append(lines, plainLine("unless "+condText(n.Skip)))
	}
	for _, r := range n.Retry {
		lines = append(lines, plainLine(fmt.Sprintf("again on %s, %d attempts", strings.Join(r.On, ", "), maxAttempts(r))))
	}
	return lines
}

func maxAttempts(r ir.Retry) int {
	if r.MaxAttempts == 0 {
		return 4
	}
	return r.MaxAttempts
}

// addEdges adds the edges that leave n, in the order in which they are tried, then its catches.
func (b *builder) addEdges(n *ir.Node) {
	from, siblings := b.index[n.ID], 0
	for _, e := range b.edges {
		if e.From == n.ID {
			siblings++
		}
	}
	for _, e := range b.edges {
		to, ok := b.index[e.To]
		if e.From != n.ID || !ok {
			continue
		}
		label := condText(e.When)
		if label == "" && siblings > 1 {
			label = "else"
		}
		if e.MaxTraversals > 0 {
			label = strings.TrimSpace(fmt.Sprintf("%s (at most %d×)", label, e.MaxTraversals))
		}
		b.graph.Edges = append(b.graph.Edges, Edge{From: from, To: to, Label: plainLine(label)})
	}
	for _, c := range n.Catch {
		if to, ok := b.index[c.To]; ok {
			b.graph.Edges = append(b.graph.Edges, Edge{From: from, To: to, Label: plainLine("on " + strings.Join(c.On, ", ")), Catch: true})
		}
	}
}

// markBack finds the edges that lead back to where a walk from the entry came from.
func (g *Graph) markBack() {
	out := make([][]int, len(g.Nodes))
	for i, e := range g.Edges {
		out[e.From] = append(out[e.From], i)
	}
	state := make([]uint8, len(g.Nodes)) // 1 on the way, 2 done
	var visit func(n int)
	visit = func(n int) {
		state[n] = 1
		for _, i := range out[n] {
			switch e := &g.Edges[i]; state[e.To] {
			case 0:
				visit(e.To)
			case 1:
				e.Back = true
			}
		}
		state[n] = 2
	}
	for n := range g.Nodes {
		if state[n] == 0 {
			visit(n)
		}
	}
}

// plainLine makes text one harmless line of bounded length.
func plainLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) > maxText {
		s = string([]rune(s)[:maxText-1]) + "…"
	}
	return s
}
