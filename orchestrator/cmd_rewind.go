package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
)

func newRewindCmd(d *deps) *cobra.Command {
	var o travelOptions
	var to string
	var across bool
	cmd := &cobra.Command{
		Use:   "rewind [RUN] --to NODE",
		Short: "Take a run back to where a node began, with its files, and go on from there",
		Long: `Take a run back to where a node began: its variables are again what they were, the sprite's files are put back to the
checkpoint of that moment, and the run goes on from there. NODE#2 is the second time that the node began; NODE alone is
the last. Without --to the moments are listed, and for those that cannot be gone back to the reason. Their files are at a
checkpoint, or "unchanged": in the sprite, as the run left them and with whatever a person wrote there since.

The run keeps what it was started with, but asks the models that the settings name now.

Nothing is deleted: the journal keeps what the run did and records that it went back; events since are superseded. What was
done outside of the sprite (a push, a pull request) is not undone, so going back behind it is refused (7) unless
--across-effects says that this is meant. Then what stays is listed, and a run that pushed to its own branch lattice/RUN
pushes to lattice/RUN-2 from now on: nothing that was pushed is ever replaced. Of a branch that the flow names itself the
second push is refused (not_fast_forward) until somebody deletes or merges it; lattice rewind --to the push tries again.
` + exitCodes,
		Example: "  lattice rewind run_0123\n  lattice rewind run_0123 --to edit\n  lattice rewind run_0123 --to edit#2 --across-effects",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			ctx := c.Context()
			conn, err := connect(ctx, d, o.leaderOptions)
			if err != nil {
				return err
			}
			defer conn.close()
			before, err := conn.Run(ctx, optional(list))
			if err != nil {
				return err
			}
			if to == "" {
				return printMoments(ctx, d, conn, before.RunID)
			}
			values, err := d.requiredValues(before, o.agentEnv...)
			if err != nil {
				return err
			}
			view, err := conn.Rewind(ctx, before.RunID, api.RewindRequest{
				To: to, Epoch: before.Epoch, AcrossEffects: across, By: d.user, Detach: o.detach, Models: d.modelSettings(), Values: values,
			})
			if err != nil {
				return err
			}
			for _, line := range view.Notice {
				fmt.Fprintln(d.err, clean(line))
			}
			if o.detach {
				return conn.detached(ctx, view, values)
			}
			return follow(ctx, d, conn, view, before.LastSeq)
		},
	}
	o.addFlags(cmd, d)
	cmd.Flags().StringVar(&to, "to", "", "the `NODE` to go back to, or NODE#N for its N-th time")
	cmd.Flags().BoolVar(&across, "across-effects", false, "also go back behind what was done outside of the sprite")
	_ = cmd.RegisterFlagCompletionFunc("to", completeMoments(d))
	return cmd
}

func printMoments(ctx context.Context, d *deps, c *conn, run string) error {
	moments, err := c.Moments(ctx, run)
	if err != nil {
		return err
	}
	if d.json {
		return d.printJSON(moments)
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MOMENT\tAT\tFILES\tNOTE")
	for _, m := range moments {
		files := m.Files
		if m.Checkpoint != "" {
			files = m.Checkpoint
		}
		note := m.Why
		if note == "" && len(m.Effects) > 0 {
			note = "done outside since: " + strings.Join(m.Effects, ", ")
		}
		fmt.Fprintf(w, "%s#%d\t%s\t%s\t%s\n", m.Node, m.Visit, m.At.Local().Format(time.DateTime), files, clean(note))
	}
	return w.Flush()
}
