package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newImageLsCmd(d *deps) *cobra.Command {
	cmd := d.imageCmd("ls", "List the images, newest first", "  lattice image ls --json", func(ctx context.Context, c *sprites.Client, _ []string) error {
		all, err := c.Images(ctx)
		if err != nil {
			return err
		}
		if d.json {
			return d.printJSON(all)
		}
		w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "IMAGE\tNAMES\tKIND\tSIZE\tAGE")
		for _, img := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d MB\t%s\n", shortDigest(img.Digest), clean(strings.Join(img.Names, ",")), img.Kind, img.Size/1e6, age(img.ImportedAt))
		}
		return w.Flush()
	})
	cmd.Args = args(cobra.NoArgs)
	return cmd
}
