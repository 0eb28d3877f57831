package engine

import (
	"fmt"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// instant is embedded by ops whose nodes end within begin.
type instant struct{ *machine.Thread }

func (t instant) Answered(_ *ir.Node, c lattice.Command, f lattice.Fact) error {
	return unexpectedFact(c, f)
}

// unexpectedFact refuses a fact that does not answer anything that its node asks for.
func unexpectedFact(c lattice.Command, f lattice.Fact) error {
	return fmt.Errorf("%s answers command %s of %s, which does not expect it", f.FactType(), c.ID, c.Node)
}
