package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newRmCmd(env *setup.Env) *cobra.Command {
	var force bool
	cmd := connect.NewSpriteCmd(env, "rm NAME…", "Remove sprites with all their checkpoints", "  lattice sprite rm box\n  lattice sprite rm one two three --json", cobra.MinimumNArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		owners, err := findOwners(ctx, env)
		if err != nil {
			return err
		}
		return cli.RemoveEach(ctx, env.Console, list, func(ctx context.Context, name string) error {
			if owner, ok := owners[name]; ok && !force {
				return fault.Busy("sprite_busy", "sprite %s belongs to %s, which is %s and cannot continue without it", name, owner.RunID, owner.Status).WithHint("lattice cancel %s first, or use --force", owner.RunID)
			}
			return setup.ExplainSprite(c.Delete(ctx, name))
		})
	})
	cmd.Flags().BoolVar(&force, "force", false, "also remove the sprite of a run that has not ended; such a run can then only be canceled")
	cmd.Long = "Remove sprites with all of their checkpoints. The sprite of a run that has not ended is removed only with --force; otherwise\nthe command ends with 6.\n" + cli.RemovalHelp + cli.ExitCodes
	cmd.ValidArgsFunction = complete.ManySprites(env)
	return cmd
}
