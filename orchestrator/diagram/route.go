package diagram

import (
	"cmp"
	"fmt"
	"slices"
)

// makePicture gives the vertices their rows, draws the wires between the layers and moves everything to the corner.
func (l *layered) makePicture() *picture {
	p := &picture{}
	l.placeRows()
	left := 0
	for _, layer := range l.layers {
		for _, v := range layer {
			left = min(left, v.x-v.w/2)
		}
	}
	for _, layer := range l.layers {
		for _, v := range layer {
			v.x -= left
			p.w, p.h = max(p.w, v.x+v.w/2+1), max(p.h, v.y+v.h)
		}
	}
	for _, layer := range l.layers {
		tracks := assignTracks(layer)
		bottom := 0
		for _, v := range layer {
			bottom = max(bottom, v.y+v.h)
		}
		for _, v := range layer {
			l.drawVertex(p, v)
			for _, to := range v.out {
				p.wires = append(p.wires, routeWire(v, to, bottom+tracks[v]))
			}
		}
	}
	return p
}

// placeRows places the layers below each other with room for the tracks between them.
func (l *layered) placeRows() {
	y := 0
	for _, layer := range l.layers {
		height := 0
		for _, v := range layer {
			v.y, height = y, max(height, v.h)
		}
		used := 0
		for _, t := range assignTracks(layer) {
			used = max(used, t+1)
		}
		y += height + used + 1
	}
}

// assignTracks gives each vertex whose edges do not go straight down a row of its own below its layer. Where one starts in the
// column in which another's edge ends, it must be the upper one, or the two would run over each other.
func assignTracks(layer []*vertex) map[*vertex]int {
	var turning []*vertex
	for _, v := range layer {
		if slices.ContainsFunc(v.out, func(u *vertex) bool { return u.x != v.x }) {
			turning = append(turning, v)
		}
	}
	slices.SortStableFunc(turning, func(a, b *vertex) int { return cmp.Compare(a.pos, b.pos) })
	out := map[*vertex]int{}
	for len(turning) > 0 {
		next := slices.IndexFunc(turning, func(v *vertex) bool {
			return !slices.ContainsFunc(turning, func(u *vertex) bool {
				return u != v && slices.ContainsFunc(v.out, func(to *vertex) bool { return to.x == u.x && to.x != v.x })
			})
		})
		next = max(next, 0) // a circle: something has to cross
		out[turning[next]] = len(out)
		turning = slices.Delete(turning, next, next+1)
	}
	return out
}

// routeWire leads from v down to the row of its track, over, and down to the next layer.
func routeWire(v, to *vertex, track int) wire {
	from := v.y + v.h - 1
	w := wire{arrow: to.node >= 0, dashed: v.dashed || to.dashed}
	w.points = []point{{v.x, from}}
	if v.x != to.x {
		w.points = append(w.points, point{v.x, track}, point{to.x, track})
	}
	w.points = append(w.points, point{to.x, to.y})
	return w
}

func (l *layered) drawVertex(p *picture, v *vertex) {
	switch {
	case v.node >= 0:
		p.boxes = append(p.boxes, box{x: v.x - v.w/2, y: v.y, w: v.w, h: v.h, lines: l.graph.Nodes[v.node].Lines, class: l.graph.Nodes[v.node].Class, inner: l.inner[v.node]})
	case v.text != "":
		p.labels = append(p.labels, label{v.x - v.w/2, v.y, v.text})
	default:
		p.wires = append(p.wires, wire{points: []point{{v.x, v.y}, {v.x, v.y + v.h}}, dashed: v.dashed})
	}
}

// prepareDrawing notes the edges that lead back in the boxes where they begin, and refuses drawings that are too large.
func (g Graph) prepareDrawing() (Graph, error) {
	nodes, edges := g.countParts()
	if nodes > maxNodes || edges > maxEdges {
		return g, fmt.Errorf("%w: it has %d nodes and %d edges", ErrTooLarge, nodes, edges)
	}
	return g.noteBackEdges(), nil
}

func (g Graph) noteBackEdges() Graph {
	g.Nodes = slices.Clone(g.Nodes)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		n.Lines = slices.Clone(n.Lines)
		if n.Body != nil {
			body := n.Body.noteBackEdges()
			n.Body = &body
		}
	}
	for _, e := range g.Edges {
		if e.Back {
			n := &g.Nodes[e.From]
			n.Lines = append(n.Lines, plainLine("↻ "+g.Nodes[e.To].Lines[0]+" "+e.Label))
		}
	}
	return g
}

func (g Graph) countParts() (nodes, edges int) {
	nodes, edges = len(g.Nodes), len(g.Edges)
	for _, n := range g.Nodes {
		if n.Body != nil {
			inner, more := n.Body.countParts()
			nodes, edges = nodes+inner, edges+more
		}
	}
	return nodes, edges
}
