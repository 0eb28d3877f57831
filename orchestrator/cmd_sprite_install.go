package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newSpriteInstallCmd(d *deps) *cobra.Command {
	var o leaderOptions
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "Put the skills into a remote sprite's /skills, unless they are there",
		Long: `Put the skills of the spritekit found here into a remote sprite, for its architecture: spritekit-linux-ARCH or spritekit,
beside lattice, on PATH, or by --spritekit. What is there already is compared by its digest; skills of others in /skills
stay as they are. Runs do this by themselves before a sprite's first call; sprites of the embedded host have their
skills from it.
` + exitCodes,
		Example: "  lattice sprite install box --spritekit bin/spritekit-linux-arm64",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return d.withSprites(c.Context(), o, func(ctx context.Context, client *sprites.Client) error {
				if _, err := client.Get(ctx, list[0]); err != nil {
					return spriteProblem(err)
				}
				if err := d.equip(ctx, client, skillCallOptions{leaderOptions: o}, list[0]); err != nil {
					return spriteProblem(err)
				}
				if d.json {
					return d.printJSON(map[string]any{"sprite": list[0], "installed": true})
				}
				_, err := fmt.Fprintf(d.out, "sprite %s has the skills of this spritekit\n", list[0])
				return err
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}
