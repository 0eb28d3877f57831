package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newRestartCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewSpriteCmd(env, "restart NAME", "End all that runs in a sprite and start it anew; its files stay", "  lattice sprite restart box", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		if err := c.Restart(ctx, list[0]); err != nil {
			return err
		}
		s, err := c.Get(ctx, list[0])
		if err != nil || !env.JSON {
			return err
		}
		return env.PrintJSON(s)
	})
	cmd.Long = `End all that runs in a sprite and start it anew. Its files stay as they are, and its services start again. It helps when a
sprite answers no more.
` + cli.ExitCodes
	return cmd
}
