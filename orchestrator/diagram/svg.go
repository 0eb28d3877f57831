package diagram

import (
	"fmt"
	"strings"
)

// Pixels of a cell.
const (
	cellW = 8
	cellH = 17
)

// SVG draws the graph as an image of its own, without scripts or anything from elsewhere. Its parts have classes, so that a page
// may colour them.
func (g Graph) SVG() (string, error) {
	g, err := g.prepareDrawing()
	if err != nil {
		return "", err
	}
	p := g.layOut()
	var s svg
	w, h := (p.w+2)*cellW, (p.h+2)*cellH
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="ui-monospace, monospace" font-size="13">`+"\n", w, h, w, h)
	s.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="head" d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>` + "\n")
	fmt.Fprintf(&s, `<rect class="ground" width="%d" height="%d" fill="#fff"/>`+"\n", w, h)
	s.drawPicture(p, 1, 1)
	s.WriteString("</svg>\n")
	return s.String(), nil
}

type svg struct{ strings.Builder }

// pixelCenter is the middle of a cell in pixels.
func pixelCenter(x, y int) (int, int) { return x*cellW + cellW/2, y*cellH + cellH/2 }

func (s *svg) drawPicture(p *picture, x, y int) {
	for _, w := range p.wires {
		s.drawWire(w, x, y)
	}
	for _, b := range p.boxes {
		s.drawBox(b, x+b.x, y+b.y)
	}
	for _, l := range p.labels {
		left, line := pixelCenter(x+l.x, y+l.y)
		fmt.Fprintf(s, `<rect class="ground" x="%d" y="%d" width="%d" height="%d" fill="#fff"/>`+"\n", left-cellW/2, line-cellH/2, (len([]rune(l.text)))*cellW, cellH)
		s.drawText(l.text, x+l.x, y+l.y, "small", "#555")
	}
}

func (s *svg) drawWire(w wire, x, y int) {
	var points []string
	for _, at := range w.points {
		px, py := pixelCenter(x+at.x, y+at.y)
		points = append(points, fmt.Sprintf("%d,%d", px, py))
	}
	more := ""
	if w.arrow {
		more += ` marker-end="url(#arrow)"`
	}
	if w.dashed {
		more += ` stroke-dasharray="4 3"`
	}
	fmt.Fprintf(s, `<polyline class="wire" points="%s" fill="none" stroke="#555"%s/>`+"\n", strings.Join(points, " "), more)
}

func (s *svg) drawBox(b box, x, y int) {
	left, top := pixelCenter(x, y)
	fmt.Fprintf(s, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="4" fill="#f6f8fa" stroke="#333"/>`+"\n", strings.TrimSpace("node "+b.class), left, top, (b.w-1)*cellW, (b.h-1)*cellH)
	for i, line := range b.lines {
		class, colour := "small", "#555"
		if i == 0 {
			class, colour = "title", "#000"
		}
		s.drawText(line, x+2, y+1+i, class, colour)
	}
	if b.inner != nil {
		s.drawPicture(b.inner, x+(b.w-b.inner.w)/2, y+1+len(b.lines))
	}
}

func (s *svg) drawText(text string, x, y int, class, colour string) {
	left, line := pixelCenter(x, y)
	fmt.Fprintf(s, `<text class="%s" x="%d" y="%d" fill="%s" xml:space="preserve">%s</text>`+"\n", class, left-cellW/2, line+4, colour, xmlText.Replace(text))
}

var xmlText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "\uFFFE", "", "\uFFFF", "")
