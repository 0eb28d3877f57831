package sprite

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newRestoreCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "restore NAME CHECKPOINT", "Restore a sprite's files to a checkpoint; its processes end", "  lattice sprite restore box v1", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
		stop := env.ShowWait("restore")
		err := c.Restore(ctx, list[0], list[1])
		stop()
		if errors.Is(err, sprites.ErrNotFound) {
			if _, gone := c.Get(ctx, list[0]); gone == nil {
				return fault.NotFound("checkpoint_not_found", "%s has no checkpoint %s", list[0], cli.Clean(list[1])).WithHint("lattice sprite checkpoints %s", list[0])
			}
		}
		if err == nil && env.JSON {
			return env.PrintJSON(map[string]any{"name": list[0], "restored": list[1]})
		}
		return err
	})
}
