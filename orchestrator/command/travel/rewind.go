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
	var node string
	var across bool
	var moment func() (string, error)
	cmd := &cobra.Command{
		Use:   "rewind [RUN] --to NODE | --turn TURN",
		Short: "Take a run back to where a node began or a turn of an agent ended, and continue from there",
		Long: `Take a run back to where a node began: restore its variables, and the sprite's files from the checkpoint of that moment, and
continue from there. NODE#2 is the second time that the node began; NODE alone is the last time. A node inside of another one has
the path of its iteration in front, such as each[0]/edit, if the iterations run one after the other. Without --to, the command
lists the moments, and for those that the run cannot go back to, the reason. The files of a moment are in a checkpoint, or
"unchanged": in the sprite, as the run left them, with everything that a person wrote there since.

With --turn, the run goes back to the end of a turn of an agent: the agent's session goes on from there, with the files of that
moment. lattice turns lists the turns.

The run keeps what it was started with, but asks the models that the settings name now.

Nothing is deleted: the journal keeps what the run did and records that it went back; later events are superseded. Effects
outside of the sprite, such as a push or a pull request, are not undone. Going back behind one is refused (7) unless you
give --across-effects; the command then lists the effects that remain. After that, a run that pushed to its own branch
lattice/RUN pushes to lattice/RUN-2: what was pushed is never replaced. If the flow names the branch itself, the second push
is refused (not_fast_forward) until someone deletes or merges the branch; rewind to the push to try again.
` + cli.ExitCodes,
		Example: "  lattice rewind run_0123\n  lattice rewind run_0123 --to edit\n  lattice rewind run_0123 --turn 2\n  lattice rewind run_0123 --to edit#2 --across-effects",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			ctx, run := c.Context(), cli.Optional(list)
			to, err := moment()
			if err != nil {
				return err
			}
			if to == "" {
				return listMoments(ctx, env, run)
			}
			return follow.Continue(ctx, env, o, run, func(c *connect.Conn, before api.RunView) (view api.RunView, values api.Values, err error) {
				if values, err = env.Values().Require(before, o.AgentEnv...); err != nil {
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
	cmd.Flags().StringVar(&node, "to", "", "the `NODE` to go back to, or NODE#N for its N-th time")
	cmd.Flags().BoolVar(&across, "across-effects", false, "also go back behind effects outside of the sprite")
	_ = cmd.RegisterFlagCompletionFunc("to", complete.Moments(env))
	moment = addTurnFlag(cmd, env, "to", &node)
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
		fmt.Fprintf(w, "%s#%d\t%s\t%s\t%s\n", m.Node, m.Visit, m.At.Local().Format(time.DateTime), files, cli.Clean(momentNote(m)))
	}
	return w.Flush()
}

// momentNote says why a run cannot go back to a moment, or names its effects outside since.
func momentNote(m api.Moment) string {
	if m.Why == "" && len(m.Effects) > 0 {
		return "later effects outside: " + strings.Join(m.Effects, ", ")
	}
	return m.Why
}
