package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newSpriteUsageCmd(d *deps) *cobra.Command {
	return d.spriteCmd("usage NAME", "Show what a sprite takes of its host's disk", "  lattice sprite usage box\n  lattice sprite usage box --json", 1,
		func(ctx context.Context, c *sprites.Client, list []string) error {
			u, err := c.Usage(ctx, list[0])
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(u)
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "driver\t%s\n", clean(u.Driver))
			fmt.Fprintf(w, "own files\t%s in %d entries\n", bytesText(u.Bytes), u.Entries)
			fmt.Fprintf(w, "checkpoints\t%s in %d\n", bytesText(u.CheckpointBytes), u.Checkpoints)
			fmt.Fprintf(w, "layers\t%d\n", u.Depth)
			fmt.Fprintf(w, "disk free\t%s of %s\n", bytesText(int64(u.DiskFree)), bytesText(int64(u.DiskTotal)))
			if u.DiskLow != "" {
				fmt.Fprintf(w, "disk low\t%s\n", clean(u.DiskLow))
			}
			return w.Flush()
		})
}
