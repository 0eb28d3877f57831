package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newCheckpointCmd(env *setup.Env) *cobra.Command {
	var comment string
	cmd := connect.NewSpriteCmd(env, "checkpoint NAME", "Take a checkpoint and print its id", "  lattice sprite checkpoint box --comment 'before the upgrade'", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		stop := env.ShowWait("take the checkpoint")
		cp, err := c.Checkpoint(ctx, list[0], comment)
		stop()
		if err != nil {
			return err
		}
		return env.PrintResult(cp, "%s", cp.ID)
	})
	cmd.Flags().StringVar(&comment, "comment", "", "a comment, shown in the list of checkpoints")
	return cmd
}
