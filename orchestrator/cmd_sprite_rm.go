package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newSpriteRmCmd(d *deps) *cobra.Command {
	var force bool
	cmd := d.spriteCmd("rm NAME…", "Remove sprites with all their checkpoints", "  lattice sprite rm box\n  lattice sprite rm one two three --json", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		owners, err := d.spriteOwners(ctx)
		if err != nil {
			return err
		}
		return d.removeEach(ctx, list, func(ctx context.Context, name string) error {
			if owner, ok := owners[name]; ok && !force {
				return fault.Busy("sprite_busy", "sprite %s belongs to %s, which is %s and cannot go on without it", name, owner.RunID, owner.Status).WithHint("lattice cancel %s first, or --force", owner.RunID)
			}
			return spriteProblem(c.Delete(ctx, name))
		})
	})
	cmd.Args = args(cobra.MinimumNArgs(1))
	cmd.Flags().BoolVar(&force, "force", false, "also remove a sprite of a run that has not ended, which can only be canceled then")
	cmd.Long = "Remove sprites with all their checkpoints. One that belongs to a run which has not ended is refused (6), unless --force is\ngiven.\n" + removalHelp + exitCodes
	cmd.ValidArgsFunction = completeManySprites(d)
	return cmd
}
