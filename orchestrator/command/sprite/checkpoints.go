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
	cmd := connect.NewSpriteCmd(env, "checkpoints NAME", "List, verify and delete a sprite's checkpoints", "  lattice sprite checkpoints box\n  lattice sprite checkpoints verify box\n  lattice sprite checkpoints rm box v1 v2", cobra.ExactArgs(1),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			fetch := c.Checkpoints
			if all {
				fetch = c.AllCheckpoints
			}
			points, err := fetch(ctx, list[0])
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, points, "CHECKPOINT\tAGE\tSTATE\tCOMMENT", func(p sprites.Checkpoint) []any {
				return []any{p.ID, cli.Age(p.CreateTime), healthText(p), p.Comment}
			})
		})
	cmd.Long = `List a sprite's checkpoints, newest first; with --all, also those that the host takes before each restore. If the sprite has
the name of one of the commands below, put -- before it.

A checkpoint is created instantly; soon after, it is durable: it survives a loss of power. A checkpoint is lost if its files
are missing or have changed.
` + cli.ExitCodes
	cmd.Flags().BoolVar(&all, "all", false, "also list the automatic ones")
	cmd.AddCommand(newCheckpointsVerifyCmd(env), newCheckpointsRmCmd(env))
	return cmd
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
