package diagram

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// A picture is a graph with places, in character cells; Text draws it as it is and SVG scales it.
type picture struct {
	w, h   int
	boxes  []box
	labels []label
	wires  []wire
}

type box struct {
	x, y, w, h int
	lines      []string
	class      string
	inner      *picture // drawn below the lines
}

type label struct {
	x, y int
	text string
}

// wire runs through points, each straight below or next to the one before it.
type wire struct {
	points []point
	arrow  bool // it ends at a box
	dashed bool
}

type point struct{ x, y int }

// vertex is an element that the layout moves: a box, the label of an edge, or the place where a long edge crosses a layer.
type vertex struct {
	node       int // position in Graph.Nodes, -1 for the others
	text       string
	w, h       int
	x, y       int // x is the column of the middle
	layer, pos int
	in, out    []*vertex
	dashed     bool // of the edge that it belongs to
}

const gap = 3 // columns between neighbours

// layOut places the graph top-down in layers (after Sugiyama): every edge leads from a layer to the next one, long ones
// through vertices of their own; labels are vertices, too, so that nothing is written over.
func (g Graph) layOut() *picture {
	l := layered{graph: g}
	l.buildLayers()
	for range 4 {
		l.orderLayers(func(v *vertex) []*vertex { return v.in }, false)
		l.orderLayers(func(v *vertex) []*vertex { return v.out }, true)
	}
	for range 6 {
		l.alignLayers(func(v *vertex) []*vertex { return v.in }, false)
		l.alignLayers(func(v *vertex) []*vertex { return v.out }, true)
	}
	l.alignLayers(func(v *vertex) []*vertex { return v.in }, false) // so that edges that need not turn are straight
	return l.makePicture()
}

type layered struct {
	graph  Graph
	layers [][]*vertex
	inner  []*picture // by node
}

func (l *layered) buildLayers() {
	g := l.graph
	rank := g.assignRanks()
	l.inner = make([]*picture, len(g.Nodes))
	boxes := make([]*vertex, len(g.Nodes))
	for i, n := range g.Nodes {
		v := &vertex{node: i, layer: rank[i], h: len(n.Lines) + 2}
		for _, line := range n.Lines {
			v.w = max(v.w, utf8.RuneCountInString(line)+4)
		}
		if n.Body != nil {
			l.inner[i] = n.Body.layOut()
			v.w, v.h = max(v.w, l.inner[i].w+4), v.h+l.inner[i].h
		}
		v.w |= 1 // so that it has a middle
		boxes[i] = v
		l.addVertex(v)
	}
	for _, e := range g.Edges {
		if e.Back {
			continue
		}
		at := boxes[e.From]
		for layer := at.layer + 1; layer < rank[e.To]; layer++ {
			v := &vertex{node: -1, layer: layer, w: 1, h: 1, dashed: e.Catch}
			if layer == boxes[e.From].layer+1 && e.Label != "" {
				v.text, v.w = e.Label, utf8.RuneCountInString(e.Label)|1
			}
			l.addVertex(v)
			linkVertices(at, v)
			at = v
		}
		linkVertices(at, boxes[e.To])
	}
}

func linkVertices(a, b *vertex) { a.out, b.in = append(a.out, b), append(b.in, a) }

func (l *layered) addVertex(v *vertex) {
	for len(l.layers) <= v.layer {
		l.layers = append(l.layers, nil)
	}
	v.pos = len(l.layers[v.layer])
	l.layers[v.layer] = append(l.layers[v.layer], v)
}

// assignRanks gives every node its layer: below everything that leads to it, with room for the labels between.
func (g Graph) assignRanks() []int {
	rank, waits := make([]int, len(g.Nodes)), make([]int, len(g.Nodes))
	for _, e := range g.Edges {
		if !e.Back {
			waits[e.To]++
		}
	}
	var ready []int
	for n := range g.Nodes {
		if waits[n] == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		n := ready[0]
		ready = ready[1:]
		for _, e := range g.Edges {
			if e.From != n || e.Back {
				continue
			}
			step := 1
			if e.Label != "" {
				step = 2
			}
			rank[e.To] = max(rank[e.To], rank[n]+step)
			if waits[e.To]--; waits[e.To] == 0 {
				ready = append(ready, e.To)
			}
		}
	}
	return rank
}

// orderLayers sorts each layer by the mean position of its neighbours in the layer before (or, upwards, behind).
func (l *layered) orderLayers(neighbours func(*vertex) []*vertex, up bool) {
	l.forEachLayer(up, func(layer []*vertex) {
		mean := make(map[*vertex]float64, len(layer))
		for _, v := range layer {
			mean[v] = float64(v.pos)
			if near := neighbours(v); len(near) > 0 {
				sum := 0
				for _, u := range near {
					sum += u.pos
				}
				mean[v] = float64(sum) / float64(len(near))
			}
		}
		slices.SortStableFunc(layer, func(a, b *vertex) int { return cmp.Compare(mean[a], mean[b]) })
		for i, v := range layer {
			v.pos = i
		}
	})
}

func (l *layered) forEachLayer(up bool, do func(layer []*vertex)) {
	if up {
		for _, layer := range slices.Backward(l.layers) {
			do(layer)
		}
		return
	}
	for _, layer := range l.layers {
		do(layer)
	}
}

// alignLayers moves each layer's vertices as near to the middle of their neighbours as their order and widths allow: the
// least squares solution, found by pooling those that would overlap.
func (l *layered) alignLayers(neighbours func(*vertex) []*vertex, up bool) {
	type block struct {
		first, n int
		sum      float64 // of where its vertices want its start to be
	}
	l.forEachLayer(up, func(layer []*vertex) {
		offset := make([]int, len(layer)) // of the middle, were all packed to the left
		var blocks []block
		for i, v := range layer {
			if i == 0 {
				offset[i] = v.w / 2
			} else {
				offset[i] = offset[i-1] + layer[i-1].w/2 + gap + v.w/2 + 1
			}
			blocks = append(blocks, block{i, 1, wantedMiddle(v, neighbours(v)) - float64(offset[i])})
			for n := len(blocks); n > 1 && blocks[n-2].sum/float64(blocks[n-2].n) > blocks[n-1].sum/float64(blocks[n-1].n); n-- {
				blocks[n-2].n += blocks[n-1].n
				blocks[n-2].sum += blocks[n-1].sum
				blocks = blocks[:n-1]
			}
		}
		for _, b := range blocks {
			start := int(b.sum/float64(b.n) + 1e6 + 0.5) // rounded down from half, below zero as well
			for i := b.first; i < b.first+b.n; i++ {
				layer[i].x = start - 1e6 + offset[i]
			}
		}
	})
}

// wantedMiddle is where v would like its middle to be.
func wantedMiddle(v *vertex, near []*vertex) float64 {
	if len(near) == 0 {
		return float64(v.x)
	}
	sum := 0
	for _, u := range near {
		sum += u.x
	}
	return float64(sum) / float64(len(near))
}
