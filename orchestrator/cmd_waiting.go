package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
)

func newWaitingCmd(d *deps) *cobra.Command {
	return d.query("waiting", "List what waits for a person", "  lattice waiting --json", cobra.NoArgs,
		func(ctx context.Context, c *conn, _ []string) error {
			runs, err := c.Runs(ctx, api.RunList{Open: true})
			if err != nil {
				return err
			}
			actions, err := c.Actions(ctx, "*")
			if err != nil {
				return err
			}
			asked := map[string][]api.NotedAction{}
			for _, a := range actions {
				asked[a.RunID] = append(asked[a.RunID], a)
			}
			open := []runWithActions{}
			for _, r := range runs {
				if len(r.Waits) > 0 || len(asked[r.RunID]) > 0 {
					open = append(open, runWithActions{r, asked[r.RunID]})
				}
				delete(asked, r.RunID)
			}
			for _, id := range sortedKeys(asked) { // of runs that have ended
				r, err := c.Run(ctx, id)
				if err != nil {
					return err
				}
				open = append(open, runWithActions{r, asked[id]})
			}
			if d.json {
				return d.printJSON(open)
			}
			if len(open) == 0 {
				fmt.Fprintln(d.out, "nothing waits")
			}
			for _, r := range open {
				if !r.Status.Ended() {
					for _, w := range r.Waits {
						describeWait(d.out, r.RunView, w)
					}
				}
				describeActions(d.out, r.Actions)
			}
			return nil
		})
}
