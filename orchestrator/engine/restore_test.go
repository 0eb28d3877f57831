package engine_test

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestRestoreMember: before its call a node has the files put back to those before the last call of another node.
func TestRestoreMember(t *testing.T) {
	const doc = `{"execir_version":"1.0","entry_node":"work","nodes":[
		{"id":"work","op":"TOOL_CALL","tool":"m.write","catch":[{"on":["ALL"],"to":"back"}]},
		{"id":"more","op":"TOOL_CALL","tool":"m.write"},
		{"id":"back","op":"TOOL_CALL","tool":"m.read","restore":"work","catch":[{"on":["ALL"],"to":"end"}]},
		{"id":"end","op":"END"}],
		"edges":[{"from":"work","to":"more"},{"from":"more","to":"back"}]}`
	t.Run("behind other calls", func(t *testing.T) {
		c := begin(t, doc)
		c.prepare()
		c.boundary("v1")
		c.finish(`{}`)
		c.boundary("v2") // before more
		c.finish(`{}`)
		c.restored("v1")
		if call := c.command(lattice.DoCall).Call; call.Node != "back" || c.s.Pairs["main-1"].CheckpointID != "v1" || c.s.Dirty["main-1"] {
			t.Errorf("%s is called with the files of %v", call.Node, c.s.Pairs)
		}
		c.lose()
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{}`)
	})
	t.Run("behind a failure", func(t *testing.T) {
		c := begin(t, doc)
		c.prepare()
		c.boundary("v1")
		c.fail(expr.FailTool)
		c.restored("v1")
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{}`)
	})
	t.Run("without a call to go back to", func(t *testing.T) {
		first := strings.NewReplacer(`"entry_node":"work"`, `"entry_node":"back"`, `"edges":[`, `"edges":[{"from":"back","to":"work","max_traversals":1},`)
		c := begin(t, first.Replace(doc))
		c.prepare()
		c.is(lattice.Succeeded, "", `{}`)
	})
}
