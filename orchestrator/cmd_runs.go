package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
)

func newRunsCmd(d *deps) *cobra.Command {
	var which api.RunList
	cmd := d.query("runs", "List runs, newest first", "  lattice runs --json\n  lattice runs --limit 20 --before run_0123", cobra.NoArgs,
		func(ctx context.Context, c *conn, _ []string) error {
			if which.Limit < 0 {
				return usageError{errors.New("--limit is a number of runs; 0 lists all")}
			}
			asked := which
			if which.Limit > 0 {
				asked.Limit++ // one more tells whether there are more
			}
			runs, err := c.Runs(ctx, asked)
			if err != nil {
				return err
			}
			if which.Limit > 0 && len(runs) > which.Limit {
				runs = runs[:which.Limit]
				defer fmt.Fprintf(d.err, "older ones: lattice runs --before %s, or --limit 0 for all\n", runs[len(runs)-1].RunID)
			}
			if d.json {
				return d.printJSON(runs)
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RUN\tSTATUS\tFLOW\tAT\tAGE\tSPRITE")
			for _, r := range runs {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.RunID, statusText(r), r.Flow, r.Node, age(r.CreatedAt), r.Sprite)
			}
			return w.Flush()
		})
	cmd.Flags().IntVarP(&which.Limit, "limit", "n", 100, "how many runs are listed; 0 is all")
	cmd.Flags().StringVar(&which.Before, "before", "", "list runs older than this one")
	cmd.Flags().BoolVar(&which.Open, "open", false, "only runs that have not ended")
	return cmd
}
