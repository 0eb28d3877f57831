package diagram

import (
	"fmt"
	"strings"
)

// Text draws the graph with box-drawing characters, for a terminal with a font of one width.
func (g Graph) Text() (string, error) {
	g, err := g.prepareDrawing()
	if err != nil {
		return "", err
	}
	p := g.layOut()
	if p.w*p.h > maxCells {
		return "", fmt.Errorf("%w: it takes %d columns and %d rows", ErrTooLarge, p.w, p.h)
	}
	c := newCanvas(p.w, p.h)
	c.drawPicture(p, 0, 0)
	return c.String(), nil
}

// Directions in which a cell's line leads.
const (
	up = 1 << iota
	down
	left
	right
)

var strokes = map[uint8]rune{
	up: '│', down: '│', up | down: '│', left: '─', right: '─', left | right: '─',
	down | right: '┌', down | left: '┐', up | right: '└', up | left: '┘',
	up | down | right: '├', up | down | left: '┤', down | left | right: '┬', up | left | right: '┴', up | down | left | right: '┼',
}

// canvas is a grid of cells, each with a character or with the lines that meet there.
type canvas struct {
	runes [][]rune
	lines [][]uint8
}

func newCanvas(w, h int) *canvas {
	c := &canvas{runes: make([][]rune, h), lines: make([][]uint8, h)}
	for y := range h {
		c.runes[y], c.lines[y] = make([]rune, w), make([]uint8, w)
	}
	return c
}

func (c *canvas) drawPicture(p *picture, x, y int) {
	for _, b := range p.boxes {
		c.drawBox(b, x, y)
	}
	for _, w := range p.wires {
		c.drawWire(w, x, y)
	}
	for _, l := range p.labels {
		c.drawText(l.text, x+l.x, y+l.y)
	}
}

func (c *canvas) drawBox(b box, x, y int) {
	x, y = x+b.x, y+b.y
	c.drawLine(x, y, x+b.w-1, y)
	c.drawLine(x, y+b.h-1, x+b.w-1, y+b.h-1)
	c.drawLine(x, y, x, y+b.h-1)
	c.drawLine(x+b.w-1, y, x+b.w-1, y+b.h-1)
	for i, text := range b.lines {
		c.drawText(text, x+2, y+1+i)
	}
	if b.inner != nil {
		c.drawPicture(b.inner, x+(b.w-b.inner.w)/2, y+1+len(b.lines))
	}
}

// drawWire draws a wire; at a box it ends with an arrow above the frame.
func (c *canvas) drawWire(w wire, x, y int) {
	for i := 1; i < len(w.points); i++ {
		a, b := w.points[i-1], w.points[i]
		if i == len(w.points)-1 && w.arrow {
			b.y--
		}
		c.drawLine(x+a.x, y+a.y, x+b.x, y+b.y)
	}
	if end := w.points[len(w.points)-1]; w.arrow {
		c.runes[y+end.y-1][x+end.x] = '▼'
	}
}

// drawLine draws from one cell to another in the same row or column.
func (c *canvas) drawLine(x, y, toX, toY int) {
	for x != toX || y != toY {
		var out, back uint8
		nextX, nextY := x, y
		switch {
		case x < toX:
			nextX, out, back = x+1, right, left
		case x > toX:
			nextX, out, back = x-1, left, right
		case y < toY:
			nextY, out, back = y+1, down, up
		default:
			nextY, out, back = y-1, up, down
		}
		c.lines[y][x] |= out
		c.lines[nextY][nextX] |= back
		x, y = nextX, nextY
	}
}

func (c *canvas) drawText(text string, x, y int) {
	for _, r := range text {
		c.runes[y][x] = r
		x++
	}
}

func (c *canvas) String() string {
	var b strings.Builder
	for y := range c.runes {
		row := make([]rune, len(c.runes[y]))
		for x, r := range c.runes[y] {
			switch {
			case r != 0:
				row[x] = r
			case c.lines[y][x] != 0:
				row[x] = strokes[c.lines[y][x]]
			default:
				row[x] = ' '
			}
		}
		b.WriteString(strings.TrimRight(string(row), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
