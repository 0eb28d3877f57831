package image

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newLsCmd(env *setup.Env) *cobra.Command {
	cmd := newHostCmd(env, "ls", "List the images, newest first", "  lattice image ls --json", func(ctx context.Context, c *sprites.Client, _ []string) error {
		all, err := c.Images().List(ctx)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(all)
		}
		w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "IMAGE\tNAMES\tKIND\tSIZE\tAGE")
		for _, img := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d MB\t%s\n", equip.ShortDigest(img.Digest), cli.Clean(strings.Join(img.Names, ",")), img.Kind, img.Size/1e6, cli.Age(img.ImportedAt))
		}
		return w.Flush()
	})
	cmd.Args = cli.Args(cobra.NoArgs)
	return cmd
}
