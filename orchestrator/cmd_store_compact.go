package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newStoreCompactCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Make the store's file smaller",
		Long: `Write the store anew without the room that lies free in it. The new file is checked and on disk before it takes the place
of the old one; until then nothing has changed, and Ctrl-C is safe. It needs room for a second file. Runs that are driven
wait meanwhile and go on.

With --json one object is printed: {"bytes_before","bytes_after"}.
Exit codes: 0 done, 1 the store is damaged, 9 the disk is full.`,
		Example: "  lattice store compact",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(cmd.Context(), d, leaderOptions{})
			if err != nil {
				return err
			}
			defer c.close()
			show := newWork(d)
			out, err := c.CompactStore(cmd.Context(), show.progress)
			show.clear()
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(out)
			}
			_, err = fmt.Fprintf(d.out, "%s before, %s after\n", bytesText(out.BytesBefore), bytesText(out.BytesAfter))
			return err
		},
	}
}
