package machine

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// CountUsage counts questions, in all and by node.
func (m *Machine) CountUsage(node string, calls int, u lattice.ModelUsage) {
	m.State.Models = m.State.Models.Plus(calls, u)
	if m.State.ModelsBy == nil {
		m.State.ModelsBy = map[string]runstate.Spent{}
	}
	m.State.ModelsBy[node] = m.State.ModelsBy[node].Plus(calls, u)
}

// budgetInUse reports whether a question is under way that has to end before the next one, because both draw on one budget.
func (m *Machine) budgetInUse() bool {
	l := m.Program.Doc.Limits
	return l != nil && l.MaxCostUSD > 0 && slices.ContainsFunc(m.State.Pending, func(c lattice.Command) bool { return c.Kind == lattice.DoModel })
}

// modelAskedAgain counts a request that is repeated because its outcome is unknown.
func (m *Machine) modelAskedAgain(f lattice.ModelAskedAgain) error {
	i := slices.IndexFunc(m.State.Pending, func(c lattice.Command) bool { return c.ID == f.CommandID && c.Kind == lattice.DoModel })
	if i < 0 || f.Again != m.State.Pending[i].Again+1 {
		return fmt.Errorf("%w: question %s is not pending, or was asked again before", ErrStale, f.CommandID)
	}
	c := &m.State.Pending[i] // a copy of this step's own
	if l := m.Program.Doc.Limits; l != nil && l.MaxLLMCalls > 0 && m.State.Models.Calls >= l.MaxLLMCalls {
		_, t, err := m.takeCommand(f.CommandID, lattice.DoModel)
		if err != nil {
			return err
		}
		t.FailVisit(Failf(expr.FailLimit, "a question was cut off, and max_llm_calls %d leaves none to ask it again", l.MaxLLMCalls))
		return nil
	}
	c.Again++
	m.CountUsage(c.Node, 1, lattice.ModelUsage{})
	return nil
}
