package travel

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newRewindCmd(env *setup.Env) *cobra.Command {
	var o follow.Options
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
` + cli.ExitCodes,
		Example: "  lattice rewind run_0123\n  lattice rewind run_0123 --to edit\n  lattice rewind run_0123 --to edit#2 --across-effects",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			ctx, run := c.Context(), cli.Optional(list)
			if to == "" {
				return listMoments(ctx, env, run)
			}
			return follow.Continue(ctx, env, o, run, func(c *connect.Conn, before api.RunView) (view api.RunView, values api.Values, err error) {
				if values, err = env.RequiredValues(before, o.AgentEnv...); err != nil {
					return view, values, err
				}
				view, err = c.Rewind(ctx, before.RunID, api.RewindRequest{
					To: to, Epoch: before.Epoch, AcrossEffects: across, By: env.User, Detach: o.Detach, Models: env.Models().Named, Values: values,
				})
				for _, line := range view.Notice {
					fmt.Fprintln(env.Err, cli.Clean(line))
				}
				return view, values, err
			})
		},
	}
	o.AddFlags(cmd, env)
	cmd.Flags().StringVar(&to, "to", "", "the `NODE` to go back to, or NODE#N for its N-th time")
	cmd.Flags().BoolVar(&across, "across-effects", false, "also go back behind what was done outside of the sprite")
	_ = cmd.RegisterFlagCompletionFunc("to", complete.Moments(env))
	return cmd
}

// listMoments prints the moments to which a run can be taken back.
func listMoments(ctx context.Context, env *setup.Env, run string) error {
	c, err := connect.Dial(ctx, env, connect.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	before, err := c.Run(ctx, run)
	if err != nil {
		return err
	}
	moments, err := c.Moments(ctx, before.RunID)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(moments)
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
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
		fmt.Fprintf(w, "%s#%d\t%s\t%s\t%s\n", m.Node, m.Visit, m.At.Local().Format(time.DateTime), files, cli.Clean(note))
	}
	return w.Flush()
}
