package decide

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newApproveCmd(env *setup.Env) *cobra.Command {
	var o decideOptions
	var show bool
	cmd := &cobra.Command{
		Use:   "approve [RUN]",
		Short: "Approve what a run waits for, and follow the run",
		Long: `Approve what a run waits for. An approval is bound to exactly what was shown: commit, base, branch, remote and diff. If any
of them changes, a new approval is needed. Approving twice is the same as approving once, even from two terminals at the same
time. If the request was already rejected, the command ends with 6 and says who rejected it, and when.

On a terminal, the command shows the change first and asks; --yes skips both. --diff only shows the change.
` + connect.WithoutRun + cli.ExitCodes,
		Example: "  lattice approve\n  lattice approve --diff\n  lattice approve run_0123 --yes --comment 'looks right'",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if show {
				return runShowProposed(c.Context(), env, o, cli.Optional(list))
			}
			o.ask = env.CanAsk() && !o.yes
			return runDecide(c.Context(), env, o, cli.Optional(list), lattice.Approve, nil)
		},
	}
	o.addDecideFlags(cmd, env)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "approve without showing the change and asking")
	cmd.Flags().BoolVar(&show, "diff", false, "show the change and decide nothing")
	cmd.MarkFlagsMutuallyExclusive("diff", "yes")
	cmd.MarkFlagsMutuallyExclusive("diff", "comment")
	cmd.MarkFlagsMutuallyExclusive("diff", "detach")
	return cmd
}

// runShowProposed prints the change that a run waits with.
func runShowProposed(ctx context.Context, env *setup.Env, o decideOptions, run string) error {
	c, err := connect.Dial(ctx, env, o.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	view, err := connect.ChooseRun(ctx, c, run, false)
	if err != nil {
		return err
	}
	p, err := c.Proposed(ctx, view.RunID, o.wait)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(struct {
			RunID string `json:"run_id"`
			difference.Patch
		}{view.RunID, p})
	}
	return timeline.PrintPatch(env.Console, p)
}

// confirm shows the change to approve and asks. An error ends the command with nothing decided.
func confirm(ctx context.Context, console *cli.Console, c *connect.Conn, v api.RunView, wait string) error {
	i := slices.IndexFunc(v.Waits, func(w lattice.Wait) bool { return w.ID == wait })
	if i < 0 || !v.Waits[i].YesOrNo() {
		return nil // the leader reports the error
	}
	w := v.Waits[i]
	if w.Action != nil && action.Pushes(*w.Action) {
		p, err := c.Proposed(ctx, v.RunID, w.ID)
		if err == nil {
			err = timeline.PrintPatch(console, p)
		}
		if err != nil {
			fmt.Fprintf(console.Err, "the change cannot be shown: %s\n", cli.Clean(err.Error()))
		}
	}
	fmt.Fprintf(console.Err, "%s waits at %s: %s\n", v.RunID, w.Node, follow.PromptText(w.Prompt))
	if w.Action != nil {
		for _, line := range timeline.DescribeRequest(*w.Action) {
			fmt.Fprintf(console.Err, "  %s\n", line)
		}
	}
	follow.DescribeInputs(console.Err, w)
	if yes, err := cli.Confirm(ctx, console, "Approve? [y/N] "); yes || err != nil {
		return err
	}
	fmt.Fprintf(console.Err, "nothing was decided\n  next: %s\n", strings.Join(follow.NextCommands(v.RunID, w), "\n    or: "))
	return &cli.ExitError{Code: protocol.ExitWaiting}
}
