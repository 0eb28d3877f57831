package image

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newShowCmd(env *setup.Env) *cobra.Command {
	return newHostCmd(env, "show IMAGE", "Show an image", "  lattice image show debian --json", func(ctx context.Context, c *sprites.Client, list []string) error {
		img, err := c.Images().Get(ctx, list[0])
		if err != nil {
			return err
		}
		return printImage(env.Console, img)
	})
}
