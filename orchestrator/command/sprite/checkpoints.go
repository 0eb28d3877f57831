package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newCheckpointsCmd(env *setup.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "checkpoints NAME",
		Short: "List, verify and delete a sprite's checkpoints",
		Long: `List a sprite's checkpoints, newest first; with --all, also those that the host takes before each restore. If the sprite has
the name of one of the commands below, put -- before it.

A checkpoint is created instantly; soon after, it is durable: it survives a loss of power. A checkpoint is lost if its files
are missing or have changed.
` + cli.ExitCodes,
		Example: "  lattice sprite checkpoints box\n  lattice sprite checkpoints verify box\n  lattice sprite checkpoints rm box v1 v2",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				points, err := listCheckpoints(ctx, client, list[0], all)
				if err != nil {
					return setup.ExplainSprite(err)
				}
				return printCheckpoints(env.Console, points)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list the automatic ones")
	cmd.AddCommand(newCheckpointsVerifyCmd(env), newCheckpointsRmCmd(env))
	return cmd
}

func listCheckpoints(ctx context.Context, c *sprites.Client, name string, all bool) ([]sprites.Checkpoint, error) {
	if all {
		return c.AllCheckpoints(ctx, name)
	}
	return c.Checkpoints(ctx, name)
}

func printCheckpoints(console *cli.Console, points []sprites.Checkpoint) error {
	return cli.PrintTable(console, points, "CHECKPOINT\tAGE\tSTATE\tCOMMENT", func(p sprites.Checkpoint) []any {
		return []any{p.ID, cli.Age(p.CreateTime), healthText(p), p.Comment}
	})
}

// healthText says how far a checkpoint can be relied on.
func healthText(p sprites.Checkpoint) string {
	switch {
	case p.Health != "":
		return "lost"
	case p.Unverified:
		return "unverified"
	case p.Durable:
		return "durable"
	}
	return "created"
}
