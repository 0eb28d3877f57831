package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

func newRunsCmd(env *setup.Env) *cobra.Command {
	var which api.RunList
	cmd := connect.NewQueryCmd(env, "runs", "List runs, newest first", "  lattice runs --json\n  lattice runs --limit 20 --before run_0123", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			runs, older, err := c.PageOfRuns(ctx, which)
			if err != nil {
				return err
			}
			if older != "" {
				defer fmt.Fprintf(env.Err, "for older runs: lattice runs --before %s, or --limit 0 for all\n", older)
			}
			return cli.PrintTable(env.Console, runs, "RUN\tSTATUS\tFLOW\tAT\tAGE\tSPRITE", func(r api.RunView) []any {
				return []any{r.RunID, timeline.DescribeStatus(r), r.Flow, r.Node, cli.Age(r.CreatedAt), r.Sprite}
			})
		})
	cmd.Flags().IntVarP(&which.Limit, "limit", "n", 100, "list at most this many runs; 0 lists all")
	cmd.Flags().StringVar(&which.Before, "before", "", "list runs older than this one")
	cmd.Flags().StringVar(&which.Flow, "flow", "", "list only runs of the flow `NAME`")
	cmd.Flags().BoolVar(&which.Open, "open", false, "list only runs that have not ended")
	return cmd
}
