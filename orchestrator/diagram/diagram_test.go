package diagram

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

func document(t *testing.T, text string) ir.Document {
	t.Helper()
	p, findings := check.Parse([]byte(text), manifests.Lookup)
	if p == nil {
		t.Fatalf("%s: %+v", text, findings)
	}
	return p.Doc
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + name)
	if err == nil && got == string(want) {
		return
	}
	if os.Getenv("UPDATE") != "" {
		err = os.WriteFile("testdata/"+name, []byte(got), 0o644)
	}
	t.Errorf("%s (UPDATE=1 writes it; %v):\n%s\nwant\n%s", name, err, got, want)
}

// A shipped flow and one with everything that is drawn, in all forms.
func TestGolden(t *testing.T) {
	t.Parallel()
	all, err := os.ReadFile("testdata/all.execir.json")
	if err != nil {
		t.Fatal(err)
	}
	shipped, _ := manifests.Flow("fix-and-propose")
	for name, text := range map[string][]byte{"all": all, "fix-and-propose": shipped} {
		g := Of(document(t, string(text)), map[string]string{"a": "Read\x1b[31m \"it\""})
		drawn, err := g.Text()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", drawn)
		golden(t, name+".mmd", g.Mermaid())
		if drawn, err = g.SVG(); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".svg", drawn)
	}
}

// Nothing that a document's author wrote gets out of its place: no control characters, no markup.
func TestHostileText(t *testing.T) {
	t.Parallel()
	const evil = "<script>alert(1)</script>\x1b]0;t\x07\u202e\r\n\"]-->x[\"`%%{init}%%\u2028&#quot;|end"
	g := Of(ir.Document{EntryNode: evil, Nodes: []ir.Node{
		{ID: evil, Op: evil, Tool: evil, Retry: []ir.Retry{{On: []string{evil}}}},
		{ID: "b", Op: ir.OpHuman, Prompt: []byte(fmt.Sprintf("%q", "<img src=x>\u001b"))},
	}, Edges: []ir.Edge{{From: evil, To: "b"}, {From: "b", To: evil, MaxTraversals: 1}}}, map[string]string{"b": evil})
	text, err := g.Text()
	if err != nil {
		t.Fatal(err)
	}
	svg, err := g.SVG()
	if err != nil {
		t.Fatal(err)
	}
	mermaid := g.Mermaid()
	for _, drawn := range []string{text, svg, mermaid} {
		if i := strings.IndexFunc(drawn, func(r rune) bool {
			return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028')
		}); i >= 0 {
			t.Errorf("a control character at %d of\n%q", i, drawn)
		}
	}
	elements := map[string]bool{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local] = true
		}
	}
	if elements["script"] || elements["img"] || !elements["rect"] {
		t.Errorf("elements %v", elements)
	}
	for _, line := range strings.Split(mermaid, "\n") {
		inside := strings.Split(line, `"`)
		if len(inside)%2 == 0 {
			t.Errorf("a quote is open: %s", line)
		}
		for i := 1; i < len(inside); i += 2 {
			if strings.ContainsAny(strings.ReplaceAll(inside[i], "<br/>", ""), "<>`&%") {
				t.Errorf("markup in %s", line)
			}
		}
	}
}

// Every box is whole, whatever the shape of the graph: no text is cut by a line.
func TestNothingOverlaps(t *testing.T) {
	t.Parallel()
	const n = 12
	for seed := range 40 {
		var g Graph
		for i := range n {
			g.Nodes = append(g.Nodes, Node{Lines: []string{fmt.Sprintf("node%02d", i)}})
		}
		for i, x := 0, seed*7+3; i < 20; i++ {
			x = (x*1103515245 + 12345) & 0x7fffffff
			from := x / 8 % (n - 1)
			e := Edge{From: from, To: from + 1 + x/1024%(n-from-1)}
			if x/65536%3 == 0 {
				e.Label = fmt.Sprintf("label%02d", i)
			}
			g.Edges = append(g.Edges, e)
		}
		drawn, err := g.Text()
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if !strings.Contains(drawn, fmt.Sprintf("│ node%02d  │", i)) {
				t.Errorf("seed %d: node %d is not whole:\n%s", seed, i, drawn)
			}
		}
		for i, e := range g.Edges {
			if e.Label != "" && !strings.Contains(drawn, e.Label) {
				t.Errorf("seed %d: the label of edge %d is not whole:\n%s", seed, i, drawn)
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	g := Graph{Nodes: make([]Node, maxNodes+1)}
	if _, err := g.Text(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Text: %v", err)
	}
	if _, err := g.SVG(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("SVG: %v", err)
	}
}

func TestCondText(t *testing.T) {
	t.Parallel()
	for cond, want := range map[string]string{
		`{"op":"always"}`:                                      "",
		`{"op":"otherwise"}`:                                   "otherwise",
		`{"op":"case","is":"green"}`:                           "green",
		`{"op":"exists","ref":"$in"}`:                          "$in exists",
		`{"op":"not","args":[{"op":"is_null","ref":"$in.a"}]}`: "not ($in.a is null)",
		`{"op":"or","args":[{"op":"eq","left":"$in.a","right":"x"},{"op":"and","args":[{"op":"never"},{"op":"has_key","ref":"$in","key":"k"}]}]}`: `$in.a == "x" or (never and $in has k)`,
		`{"op":"len_ge","left":"$in.a","right":2}`:                                       "len($in.a) >= 2",
		`{"op":"any","items":"$in.l","where":{"op":"eq","left":"$item","right":null}}`:   "any of $in.l: $item == null",
		`{"op":"in","left":{"ref":"$in.a","default":1},"right":[1,true]}`:                "$in.a in [1, true]",
		`{"op":"type_is","ref":"$in.a","type":"string"}`:                                 "$in.a is of type string",
		`{"op":"starts_with","left":{"concat":["a",1]},"right":{"lit":{"z":1,"a":"b"}}}`: `a1 starts with {lit: {a: "b", z: 1}}`,
	} {
		c := new(expr.Cond)
		if err := c.UnmarshalJSON([]byte(cond)); err != nil {
			t.Fatal(err)
		}
		if got := condText(c); got != want {
			t.Errorf("condText(%s) = %s, want %s", cond, got, want)
		}
	}
}

// A picture that nobody can look at is not made, however few its nodes.
func TestTextOfManyLongEdges(t *testing.T) {
	t.Parallel()
	g := Graph{Nodes: make([]Node, maxNodes)}
	for i := range g.Nodes {
		g.Nodes[i].Lines = []string{"n"}
		if i > 0 {
			g.Edges = append(g.Edges, Edge{From: i - 1, To: i}, Edge{From: 0, To: i, Label: strings.Repeat("x", maxText)})
		}
	}
	if text, err := g.Text(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Text = %d bytes, %v, want ErrTooLarge", len(text), err)
	}
}
