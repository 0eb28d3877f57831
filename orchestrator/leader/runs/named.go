package runs

import (
	"errors"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// checkRepo refuses a repository before it is recorded: its URL may hold credentials.
func checkRepo(spec string) error {
	err := worktree.CheckSpec(spec)
	if refused, ok := errors.AsType[*lattice.Refusal](err); ok {
		return &fault.Error{Fault: refused.Fault, Exit: protocol.ExitBadInput}
	}
	return err
}
