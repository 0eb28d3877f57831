package decide

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newActionCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "action",
		Short: "See and decide what skills asked for without waiting",
		Long: `Skills can ask for something outside of their sprite and go on: labels or a comment on GitHub, a message to you, a push.
lattice logs and lattice show print messages. An action that needs a person stays open: a push or a message is performed by
approve itself, and so is a comment, a label or a pull request if the settings name the code host (lattice help forge). Without
that you do it there by hand, and record that with approve. No run waits for it. Every decision is recorded in the run's journal before it takes effect.`,
		Example: "  lattice action ls\n  lattice action approve run_0123 4f2a",
	})
	ls := connect.NewQueryCmd(env, "ls [RUN]", "List the open actions of all runs, or all actions of one", "  lattice action ls\n  lattice action ls run_0123 --json", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			id := cmp.Or(cli.Optional(list), "*")
			all, err := c.Actions(ctx, id)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, all, "RUN\tKEY\tSTATUS\tACTION", func(a api.NotedAction) []any {
				return []any{a.RunID, fmt.Sprintf("%.*s", timeline.KeyLength, a.Key), a.Status, timeline.DescribeAction(a)}
			})
		})
	show := connect.NewQueryCmd(env, "show RUN KEY", "Print an action, what it is bound to, and the decisions about it", "  lattice action show run_0123 4f2a", cobra.ExactArgs(2),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			a, err := findAction(ctx, c, list[0], list[1])
			if err != nil {
				return err
			}
			history := []audit.Entry{}
			if err := c.AuditEntries(ctx, audit.Run(a.RunID), 0, func(e audit.Entry) error {
				if strings.Contains(string(e.Body), `"of":"`+a.Key+`"`) {
					history = append(history, e)
				}
				return nil
			}); err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(struct {
					api.NotedAction
					History []audit.Entry `json:"history"`
				}{a, history})
			}
			fmt.Fprintf(env.Out, "%s %s\n%s: %s\n", a.RunID, a.Key, a.Status, timeline.DescribeAction(a))
			for _, line := range timeline.DescribeBinding(a.Binding) {
				fmt.Fprintf(env.Out, "  %s\n", line)
			}
			if a.ByHand && a.Status == api.ActionOpen {
				fmt.Fprintf(env.Out, "  %s\n", timeline.ByHand)
			}
			for _, e := range history {
				fmt.Fprintf(env.Out, "  %s  %s  %s  %s\n", e.At.Local().Format(time.DateTime), cli.Clean(e.Who.String()), e.Kind, auditText(e))
			}
			return nil
		})
	cmd.AddCommand(ls, show,
		decideActionCmd(env, "approve", "Perform an action, or record that a person did it", lattice.Approve),
		decideActionCmd(env, "reject", "Record that an action will not be done", lattice.Reject))
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
			return env.PrintResult(a, "%s %.*s %s %s", a.RunID, timeline.KeyLength, a.Key, a.Action, a.Status)
		})
	cmd.Flags().StringVar(&comment, "comment", "", "why; it is recorded")
	return cmd
}

// findAction returns the action of a run whose key begins with key.
func findAction(ctx context.Context, c *connect.Conn, run, key string) (api.NotedAction, error) {
	all, err := c.Actions(ctx, run)
	if err != nil {
		return api.NotedAction{}, err
	}
	all = slices.DeleteFunc(all, func(a api.NotedAction) bool { return !strings.HasPrefix(a.Key, key) })
	switch len(all) {
	case 0:
		return api.NotedAction{}, fault.NotFound("action_not_found", "%s noted no action %q", run, key).WithHint("lattice action ls %s", run)
	case 1:
		return all[0], nil
	}
	return api.NotedAction{}, fault.BadInput("action_ambiguous", "%s noted %d actions that %q could mean", run, len(all), key).WithHint("lattice action ls %s", run)
}
