package engine

import (
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// startLLM begins an attempt of an LLM_… node. The validator refuses these ops for now, so that no run comes here.
func (m *machine) startLLM(node *ir.Node) {
	m.err = fmt.Errorf("node %s has an op %q that this version does not run", node.ID, node.Op)
}
