package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newSpriteRestartCmd(d *deps) *cobra.Command {
	cmd := d.spriteCmd("restart NAME", "End all that runs in a sprite and start it anew; its files stay", "  lattice sprite restart box", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		if err := c.Restart(ctx, list[0]); err != nil {
			return err
		}
		s, err := c.Get(ctx, list[0])
		if err != nil || !d.json {
			return err
		}
		return d.printJSON(s)
	})
	cmd.Long = `End all that runs in a sprite and start it anew. Its files stay as they are, and its services start again. It helps when a
sprite answers no more.
` + exitCodes
	return cmd
}
