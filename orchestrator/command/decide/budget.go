package decide

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newBudgetCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "budget",
		Short: "See what models and agents have taken, and raise a budget",
		Long: `A policy can limit the money, the tokens and the time that questions to models and calls of agent.run take: of a run, of a
session, which is a run with its forks, of all runs for a work item and their forks, of a repository, and of a day in UTC
([budgets.run], [budgets.session], [budgets.work_item], [budgets.repository], [budgets.day] in policy.toml). A call reserves the
most that it can take before it begins, and settles with what it took. A run whose call does not fit stops. A person raises the budget, and lattice resume continues the run.
[budgets.raise] of the policy says who may raise one; lattice policy explain budgets.raise names the rule. Without a policy
file, the same tables in config.toml set limits.

A budget is named as lattice budget ls shows it, such as repository:github.com/acme/site. A run stands for its own budget, run
for that of the last run, and day for that of today.`,
		Example: "  lattice budget ls\n  lattice budget ls run_0123\n  lattice budget raise run_0123 --usd 5",
	})
	cmd.AddCommand(newBudgetLsCmd(env), newBudgetRaiseCmd(env))
	return cmd
}

func newBudgetLsCmd(env *setup.Env) *cobra.Command {
	var all bool
	cmd := connect.NewQueryCmd(env, "ls [RUN]", "List the budgets of today, or those of one run", "  lattice budget ls\n  lattice budget ls run_0123 --json\n  lattice budget ls --all", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if all && len(list) > 0 {
				return fault.BadInput("usage", "--all lists the budgets of all runs, so it takes no run").WithHint("leave out one of the two")
			}
			views, err := c.Budgets(ctx, cli.Optional(list), all)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, views, "BUDGET\tSPENT\tRESERVED\tLIMIT\tRAISED BY", func(v api.BudgetView) []any {
				return []any{v.Scope, v.Spent, v.Reserved, timeline.DescribeLimit(v.Limit), timeline.DescribeRaise(v.Raised)}
			})
		})
	cmd.Flags().BoolVar(&all, "all", false, "list every budget from which something was taken")
	return cmd
}

func newBudgetRaiseCmd(env *setup.Env) *cobra.Command {
	var usd float64
	var tokens int64
	var took time.Duration
	cmd := connect.NewQueryCmd(env, "raise RUN|BUDGET", "Raise a budget by an amount", "  lattice budget raise run_0123 --usd 5\n  lattice budget raise day --tokens 100000 --time 1h\n  lattice budget raise repository:github.com/acme/site --usd 20", cobra.ExactArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if usd < 0 || tokens < 0 || took < 0 {
				return fault.BadInput("bad_input", "a budget cannot be lowered here").WithHint("set a lower limit in policy.toml")
			}
			v, err := c.RaiseBudget(ctx, api.RaiseRequest{Scope: list[0], By: budget.Amount{MicroUSD: budget.MicroUSD(usd), Tokens: tokens, Millis: took.Milliseconds()}})
			if err != nil {
				return err
			}
			return env.PrintResult(v, "%s: the limits of the policy are raised by %s", cli.Clean(string(v.Scope)), v.Raised)
		})
	cmd.Flags().Float64Var(&usd, "usd", 0, "US dollars")
	cmd.Flags().Int64Var(&tokens, "tokens", 0, "number of tokens")
	cmd.Flags().DurationVar(&took, "time", 0, "time that calls take, such as 30m")
	cmd.MarkFlagsOneRequired("usd", "tokens", "time")
	return cmd
}
