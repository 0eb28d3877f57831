package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// keyLength is how much of an action's key people are shown and type.
const keyLength = 10

func newActionCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "action",
		Short: "See and decide what skills asked for without waiting",
		Long: `Skills can ask for something outside of their sprite and go on: labels or a comment on GitHub, a message to you, a push.
Messages are shown, by lattice logs and show. What needs a person stays open: it is done by hand, which approve records, or,
a push, by approve itself. Nothing waits for it. Every decision is recorded in the run's journal before it takes effect.`,
		Example: "  lattice action ls\n  lattice action approve run_0123 4f2a",
	})
	ls := d.query("ls [RUN]", "List the open actions of all runs, or all actions of one", "  lattice action ls\n  lattice action ls run_0123 --json", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *conn, list []string) error {
			id := optional(list)
			if id == "" {
				id = "*"
			}
			all, err := c.Actions(ctx, id)
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(all)
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RUN\tKEY\tSTATUS\tACTION")
			for _, a := range all {
				fmt.Fprintf(w, "%s\t%.*s\t%s\t%s\n", a.RunID, keyLength, a.Key, a.Status, notedText(a))
			}
			return w.Flush()
		})
	cmd.AddCommand(ls,
		decideActionCmd(d, "approve", "Have a push done, or say that an action was done by hand", lattice.Approve),
		decideActionCmd(d, "reject", "Say that an action will not be done", lattice.Reject))
	return cmd
}

func decideActionCmd(d *deps, verb, short string, decision lattice.Decision) *cobra.Command {
	var comment string
	cmd := d.query(verb+" RUN KEY", short, "  lattice action "+verb+" run_0123 4f2a", cobra.ExactArgs(2),
		func(ctx context.Context, c *conn, list []string) error {
			a, err := c.DecideAction(ctx, list[0], api.ActionDecision{Key: list[1], Decision: decision, Comments: comment, By: d.user})
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(a)
			}
			_, err = fmt.Fprintf(d.out, "%s %.*s %s %s\n", a.RunID, keyLength, a.Key, a.Action, a.Status)
			return err
		})
	cmd.Flags().StringVar(&comment, "comment", "", "why; it is recorded")
	return cmd
}

// notedText is an action on one line.
func notedText(a api.NotedAction) string {
	text := clean(a.Action + " " + string(a.Parameters))
	if a.Detail != "" {
		text += " (" + clean(a.Detail) + ")"
	}
	return text
}

// describeActions tells a person what skills of a run asked for without waiting, and what to do about it.
func describeActions(out io.Writer, all []api.NotedAction) {
	for _, a := range all {
		fmt.Fprintf(out, "%s asked without waiting: %s: %s\n", a.RunID, a.Status, notedText(a))
		if a.Status == api.ActionApproved {
			fmt.Fprintf(out, "  next: lattice action approve %s %.*s   its outcome is not known; what was done is not done twice\n", a.RunID, keyLength, a.Key)
		}
		if a.Status != api.ActionOpen {
			continue
		}
		for _, line := range bindingLines(a.Binding) {
			fmt.Fprintf(out, "  %s\n", line)
		}
		what := "when it is done"
		if len(a.Binding) > 0 {
			what = "which does it"
		}
		fmt.Fprintf(out, "  next: lattice action approve %s %.*s   %s\n    or: lattice action reject %s %.*s\n", a.RunID, keyLength, a.Key, what, a.RunID, keyLength, a.Key)
	}
}

// runWithActions is a run with what its skills asked for without waiting.
type runWithActions struct {
	api.RunView
	Actions []api.NotedAction `json:"actions,omitempty"`
}
