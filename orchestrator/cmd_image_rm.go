package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newImageRmCmd(d *deps) *cobra.Command {
	cmd := d.imageCmd("rm IMAGE…", "Remove images that no sprite uses", "  lattice image rm debian\n  lattice image rm old older --json", func(ctx context.Context, c *sprites.Client, list []string) error {
		return d.removeEach(ctx, list, func(ctx context.Context, ref string) error {
			return imageProblem(c.RemoveImage(ctx, ref))
		})
	})
	cmd.Args = args(cobra.MinimumNArgs(1))
	cmd.Long = "Remove images that no sprite uses.\n" + removalHelp + exitCodes
	one := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		return without(list)(one(c, nil, word))
	}
	return cmd
}
