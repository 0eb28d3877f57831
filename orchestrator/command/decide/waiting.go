package decide

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

func newWaitingCmd(env *setup.Env) *cobra.Command {
	return connect.NewQueryCmd(env, "waiting", "List what waits for a person or a time", "  lattice waiting --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			open, err := api.ListWaiting(ctx, c)
			if err != nil {
				return err
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
