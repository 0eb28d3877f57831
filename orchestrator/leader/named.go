package leader

import (
	"context"
	"errors"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// checkRepo refuses a repository before it is recorded: its URL may hold credentials.
func checkRepo(spec string) error {
	err := worktree.CheckSpec(spec)
	var refused *lattice.Refusal
	if errors.As(err, &refused) {
		return &fault.Error{Fault: refused.Fault, Exit: protocol.ExitBadInput}
	}
	return err
}

// findNamed refuses a run whose sprite, repository or ref is not there.
func (l *Leader) findNamed(ctx context.Context, program *ir.Program, o api.Options) error {
	if o.Sprite != "" && program.CallsSkills() {
		_, err := l.client.Get(ctx, o.Sprite)
		if errors.Is(err, sprites.ErrNotFound) {
			return fault.NotFound("sprite_not_found", "there is no sprite %s", o.Sprite).WithHint("lattice sprite ls, or make it: lattice sprite create %s", o.Sprite)
		}
		if err != nil {
			return SpriteProblem(err)
		}
	}
	if o.Repo == "" {
		return nil
	}
	err := l.git.Find(ctx, o.Repo, o.Ref)
	var refused *lattice.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	exit := protocol.ExitBadInput
	switch refused.Fault.Code {
	case "repository_not_found", "not_a_repository", "ref_not_found":
		exit = protocol.ExitNotFound
	case "repository_unreachable":
		exit = protocol.ExitNetwork
	}
	return &fault.Error{Fault: refused.Fault, Exit: exit}
}
