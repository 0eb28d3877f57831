package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newCheckpointsRmCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewSpriteCmd(env, "rm NAME CHECKPOINT…", "Delete checkpoints", "  lattice sprite checkpoints rm box v1 v2", cobra.MinimumNArgs(2),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			return cli.RemoveEach(ctx, env.Console, list[1:], func(ctx context.Context, id string) error {
				return setup.ExplainSprite(checkpointProblem(ctx, c, list[0], id, c.DeleteCheckpoint(ctx, list[0], id)))
			})
		})
	cmd.Long = `Delete checkpoints of a sprite. Data that other checkpoints, the present state or forks share with one is kept; the rest of
its disk space is freed soon after.
` + cli.RemovalHelp + cli.ExitCodes
	cmd.ValidArgsFunction = completeManyCheckpoints(env)
	return cmd
}

// completeManyCheckpoints offers a sprite, then any number of its checkpoints.
func completeManyCheckpoints(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete.Checkpoints(env)(c, list[:min(len(list), 1)], word)
	}
}
