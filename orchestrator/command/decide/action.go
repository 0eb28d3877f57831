package decide

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

func newActionCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "action",
		Short: "See and decide what skills asked for without waiting",
		Long: `Skills can ask for something outside of their sprite and go on: labels or a comment on GitHub, a message to you, a push.
Messages are shown, by lattice logs and show. What needs a person stays open: it is done by hand, which approve records, or,
a push, by approve itself. Nothing waits for it. Every decision is recorded in the run's journal before it takes effect.`,
		Example: "  lattice action ls\n  lattice action approve run_0123 4f2a",
	})
	ls := connect.NewQueryCmd(env, "ls [RUN]", "List the open actions of all runs, or all actions of one", "  lattice action ls\n  lattice action ls run_0123 --json", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			id := cli.Optional(list)
			if id == "" {
				id = "*"
			}
			all, err := c.Actions(ctx, id)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(all)
			}
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RUN\tKEY\tSTATUS\tACTION")
			for _, a := range all {
				fmt.Fprintf(w, "%s\t%.*s\t%s\t%s\n", a.RunID, timeline.KeyLength, a.Key, a.Status, timeline.DescribeAction(a))
			}
			return w.Flush()
		})
	cmd.AddCommand(ls,
		decideActionCmd(env, "approve", "Have a push done, or say that an action was done by hand", lattice.Approve),
		decideActionCmd(env, "reject", "Say that an action will not be done", lattice.Reject))
	return cmd
}

func decideActionCmd(env *setup.Env, verb, short string, decision lattice.Decision) *cobra.Command {
	var comment string
	cmd := connect.NewQueryCmd(env, verb+" RUN KEY", short, "  lattice action "+verb+" run_0123 4f2a", cobra.ExactArgs(2),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			a, err := c.DecideAction(ctx, list[0], api.ActionDecision{Key: list[1], Decision: decision, Comments: comment, By: env.User})
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(a)
			}
			_, err = fmt.Fprintf(env.Out, "%s %.*s %s %s\n", a.RunID, timeline.KeyLength, a.Key, a.Action, a.Status)
			return err
		})
	cmd.Flags().StringVar(&comment, "comment", "", "why; it is recorded")
	return cmd
}
