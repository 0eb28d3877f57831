package image

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newRmCmd(env *setup.Env) *cobra.Command {
	cmd := newHostCmd(env, "rm IMAGE…", "Remove images that no sprite uses", "  lattice image rm debian\n  lattice image rm old older --json", func(ctx context.Context, c *sprites.Client, list []string) error {
		return cli.RemoveEach(ctx, env.Console, list, func(ctx context.Context, ref string) error {
			return equip.ExplainImage(c.Images().Remove(ctx, ref))
		})
	})
	cmd.Args = cli.Args(cobra.MinimumNArgs(1))
	cmd.Long = "Remove images that no sprite uses.\n" + cli.RemovalHelp + cli.ExitCodes
	one := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete.Without(list)(one(c, nil, word))
	}
	return cmd
}
