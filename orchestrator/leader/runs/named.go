package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/prepare"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// mostSiblings bounds the repositories next to that of a run.
const mostSiblings = 16

// checkSiblings refuses repositories that cannot be checked out next to that of the run.
func checkSiblings(o api.Options) error {
	seen := map[string]bool{"repo": true} // the folder of its own
	switch {
	case len(o.Siblings) == 0:
		return nil
	case o.Repo == "":
		return fault.BadInput("repo_missing", "the run has siblings of a repository, and no repository").WithHint("--repo PATH|URL")
	case len(o.Siblings) > mostSiblings:
		return fault.BadInput("bad_input", "there are %d siblings, at most %d are allowed", len(o.Siblings), mostSiblings)
	}
	for _, given := range o.Siblings {
		repo, _ := remote.SplitRef(given)
		if err := checkRepo(repo); err != nil {
			return err
		}
		name := remote.NameOf(repo)
		if !isFolderName(name) || seen[name] {
			return fault.BadInput("bad_input", "the sibling %q would be checked out as %q, which is taken or cannot be the name of a folder", remote.StripCredentials(repo), name).WithHint("each repository needs a name of its own, other than repo; clone it to a folder with another name")
		}
		seen[name] = true
	}
	return nil
}

// isFolderName reports whether a name can be that of a folder of the workspace. Names that begin with a dot are taken.
func isFolderName(name string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return name != "" && len(name) <= 100 && name[0] != '.' && name[0] != '-' && strings.Trim(name, allowed) == ""
}

// checkFrom refuses a checkpoint with which no sprite of the run's own can begin.
func (rn *Starter) checkFrom(ctx context.Context, o api.Options) error {
	if o.From == nil {
		return nil
	}
	if o.Sprite != "" {
		return fault.BadInput("bad_input", "the run gets a copy of %s, and cannot use the sprite %s", o.From.Sprite, o.Sprite).WithHint("leave out the checkpoint or the sprite")
	}
	if err := rn.Copies.CheckSupport(ctx, o.From.Sprite); err != nil {
		return err
	}
	all, err := rn.Client.AllCheckpoints(ctx, o.From.Sprite)
	if errors.Is(err, sprites.ErrNotFound) {
		return fault.NotFound("sprite_not_found", "there is no sprite %s", o.From.Sprite).WithHint("lattice sprite ls")
	}
	if err != nil {
		return fmt.Errorf("look for checkpoint %s: %w", o.From.Checkpoint, err)
	}
	if !slices.ContainsFunc(all, func(c sprites.Checkpoint) bool { return c.ID == o.From.Checkpoint }) {
		return fault.NotFound("checkpoint_not_found", "%s has no checkpoint %s", o.From.Sprite, o.From.Checkpoint).WithHint("lattice sprite checkpoints %s", o.From.Sprite)
	}
	return nil
}

// checkCopies refuses copies that cannot be made, and those for callers who have no account on this machine.
func checkCopies(ctx context.Context, program *ir.Program, o api.Options) error {
	switch who := caller.Of(ctx); {
	case len(o.Copies) == 0:
		return nil
	case !program.CallsSkills():
		return fault.BadInput("copy_refused", "the flow has no sprite to which files could be copied").WithHint("leave out --copy")
	case who != nil && who.UID < 0:
		return fault.Denied("copy_denied", "files of this machine are copied only for people who have an account on it").WithHint("lattice run --copy, on this machine")
	}
	return exitOfRefusal(prepare.CheckCopies(o.Copies))
}

// checkRepo refuses a repository before it is recorded: its URL may hold credentials.
func checkRepo(spec string) error {
	err := remote.CheckSpec(spec)
	if refused, ok := errors.AsType[*lattice.Refusal](err); ok {
		return &fault.Error{Fault: refused.Fault, Exit: protocol.ExitBadInput}
	}
	return err
}
