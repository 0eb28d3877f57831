package diagram

import (
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// Mermaid writes the graph as a Mermaid flow chart.
func (g Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	g.writeMermaid(&b, "n", "  ")
	return b.String()
}

func (g Graph) writeMermaid(b *strings.Builder, prefix, indent string) {
	for i, n := range g.Nodes {
		id := fmt.Sprintf("%s%d", prefix, i)
		if n.Body != nil {
			fmt.Fprintf(b, "%ssubgraph %s[%s]\n", indent, id, mermaidText(n.Lines...))
			n.Body.writeMermaid(b, id+"_", indent+"  ")
			fmt.Fprintf(b, "%send\n", indent)
			continue
		}
		opening, closing := "[", "]"
		switch n.Op {
		case ir.OpSwitch:
			opening, closing = "{", "}"
		case ir.OpHuman:
			opening, closing = "{{", "}}"
		case ir.OpPack:
			opening, closing = "(", ")"
		}
		fmt.Fprintf(b, "%s%s%s%s%s\n", indent, id, opening, mermaidText(n.Lines...), closing)
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Catch {
			arrow = "-.->"
		}
		if e.Label != "" {
			arrow += "|" + mermaidText(e.Label) + "|"
		}
		fmt.Fprintf(b, "%s%s%d %s %s%d\n", indent, prefix, e.From, arrow, prefix, e.To)
	}
}

// mermaidText quotes lines; nothing in them is read as Mermaid, Markdown or HTML.
func mermaidText(lines ...string) string {
	escaped := make([]string, len(lines))
	for i := range lines {
		escaped[i] = mermaidEntities.Replace(lines[i])
	}
	return `"` + strings.Join(escaped, "<br/>") + `"`
}

var mermaidEntities = strings.NewReplacer(
	"#", "#35;", `"`, "#quot;", "&", "#38;", "<", "#60;", ">", "#62;", "`", "#96;", "%", "#37;", `\`, "#92;",
)
