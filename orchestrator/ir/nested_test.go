package ir_test

import (
	"fmt"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/check"
)

// TestNestedLoops checks loops in each other, as many as a document can nest. The innermost assigns a variable, which is assigned
// after the outermost, too. To check the bodies of each loop again for each loop around it takes hours.
func TestNestedLoops(t *testing.T) {
	const depth = 20
	nodes, entry, edges := `{"id":"a","op":"SET","set":{"$vars.x":1}}`, "a", ""
	for i := range depth {
		body := fmt.Sprintf(`{"entry_node":%q,"nodes":[%s],"edges":[]}`, entry, nodes)
		entry = fmt.Sprintf("loop%d", i)
		nodes = fmt.Sprintf(`{"id":%q,"op":"LOOP","max_iterations":2,"until":{"op":"eq","left":"$vars.x","right":1},"body":%s}`, entry, body)
	}
	nodes += `,{"id":"end","op":"PACK","inputs":{"x":"$vars.x"}}`
	edges = fmt.Sprintf(`{"from":%q,"to":"end"}`, entry)
	p, findings := check.Parse(fmt.Appendf(nil, `{"execir_version":"1.0","entry_node":%q,"nodes":[%s],"edges":[%s]}`, entry, nodes, edges), tools)
	if p == nil || len(findings) > 0 {
		t.Errorf("Parse of loops in each other = %v", findings)
	}
}
