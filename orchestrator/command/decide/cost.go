package decide

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newCostCmd(env *setup.Env) *cobra.Command {
	by := "day"
	cmd := connect.NewQueryCmd(env, "cost", "Show what models and agents cost by day, repository or model", "  lattice cost\n  lattice cost --by repo\n  lattice cost --by model --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			lines, err := c.Cost(ctx, by)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, lines, "NAME\tCOST\tTOKENS\tTIME", func(l api.CostLine) []any {
				return []any{l.Name, budget.Money.Text(l.Spent.MicroUSD), l.Spent.Tokens, budget.Time.Text(l.Spent.Millis)}
			})
		})
	cmd.Long = `Show what questions to models and calls of agent.run took: by day in UTC, by repository, or by model. The figures are those of the
budgets (lattice budget), with or without limits. A call that reported no cost counts with the amount that it had reserved. Calls whose
model was not reported are under unknown.
` + cli.ExitCodes
	cmd.Flags().StringVar(&by, "by", by, "day, repo or model")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"day", "repo", "model"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
