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
	cmd := connect.NewSpriteCmd(env, "restart NAME", "Restart a sprite; its files are kept", "  lattice sprite restart box", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		stop := env.ShowWait("restart")
		err := c.Restart(ctx, list[0])
		stop()
		if err != nil {
			return err
		}
		s, err := c.Get(ctx, list[0])
		if err != nil || !env.JSON {
			return err
		}
		return env.PrintJSON(s)
	})
	cmd.Long = `Restart a sprite: end all of its processes and start it again. Its files do not change, and its services start again. Use it
if a sprite no longer answers.
` + cli.ExitCodes
	return cmd
}
