package forge

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newDeliveriesCmd(env *setup.Env) *cobra.Command {
	limit := 0
	deliveries := connect.NewQueryCmd(env, "deliveries [NAME]", "List the webhooks that came, and what became of each", "  lattice forge deliveries main --limit 20", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, args []string) error {
			if limit < 0 {
				return cli.UsageErrorf("--limit is a number of deliveries")
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			all, err := c.Deliveries(ctx, name, limit)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, all, "CAME\tFORGE\tEVENT\tABOUT\tSENDER\tOUTCOME", func(d api.DeliveryView) []any {
				return []any{d.At.Local().Format(time.DateTime), d.Forge, nameEvent(d), nameSubject(d), d.Sender, describeOutcome(d)}
			})
		})
	deliveries.Flags().IntVar(&limit, "limit", 50, "list at most so many, the newest; 0 lists 1000, the most")
	deliveries.ValidArgsFunction = completeNames(env)
	return deliveries
}

func nameEvent(d api.DeliveryView) string {
	if d.Action == "" {
		return d.Event
	}
	return d.Event + " " + d.Action
}

func nameSubject(d api.DeliveryView) string {
	if d.Number == 0 {
		return d.Repository
	}
	return fmt.Sprintf("%s#%d", d.Repository, d.Number)
}

func describeOutcome(d api.DeliveryView) string {
	if !d.Handled {
		return "not handled yet"
	}
	return d.Outcome
}
