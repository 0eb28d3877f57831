package sprite

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newUsageCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "usage NAME", "Show what a sprite takes of its host's disk", "  lattice sprite usage box\n  lattice sprite usage box --json", cobra.ExactArgs(1),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			stop := env.ShowWait("measure")
			u, err := c.Usage(ctx, list[0])
			stop()
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(u)
			}
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "driver\t%s\n", cli.Clean(u.Driver))
			fmt.Fprintf(w, "own files\t%s in %d entries\n", cli.FormatBytes(u.Bytes), u.Entries)
			fmt.Fprintf(w, "checkpoints\t%s in %d\n", cli.FormatBytes(u.CheckpointBytes), u.Checkpoints)
			fmt.Fprintf(w, "layers\t%d\n", u.Depth)
			fmt.Fprintf(w, "disk free\t%s of %s\n", cli.FormatBytes(int64(u.DiskFree)), cli.FormatBytes(int64(u.DiskTotal)))
			if u.DiskLow != "" {
				fmt.Fprintf(w, "disk low\t%s\n", cli.Clean(u.DiskLow))
			}
			return w.Flush()
		})
}
