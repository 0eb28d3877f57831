package decide

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

func newWaitingCmd(env *setup.Env) *cobra.Command {
	return connect.NewQueryCmd(env, "waiting", "List what waits for a person or a time", "  lattice waiting --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
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
			open := []timeline.RunWithActions{}
			for _, r := range runs {
				if len(r.Waits) > 0 || len(asked[r.RunID]) > 0 {
					open = append(open, timeline.RunWithActions{RunView: r, Actions: asked[r.RunID]})
				}
				delete(asked, r.RunID)
			}
			for _, id := range cli.SortedKeys(asked) { // of runs that have ended
				r, err := c.Run(ctx, id)
				if err != nil {
					return err
				}
				open = append(open, timeline.RunWithActions{RunView: r, Actions: asked[id]})
			}
			if env.JSON {
				return env.PrintJSON(open)
			}
			if len(open) == 0 {
				fmt.Fprintln(env.Out, "nothing waits")
			}
			for _, r := range open {
				if !r.Status.Ended() {
					for _, w := range r.Waits {
						follow.DescribeWait(env.Out, r.RunView, w)
					}
				}
				timeline.DescribeActions(env.Out, r.Actions)
			}
			return nil
		})
}
