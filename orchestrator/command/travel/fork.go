package travel

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newForkCmd(env *setup.Env) *cobra.Command {
	var o follow.Options
	var node string
	var moment func() (string, error)
	var sets []string
	var n int
	cmd := &cobra.Command{
		Use:   "fork [RUN] --at NODE | --turn TURN",
		Short: "Start runs that continue from a moment of another run, each in a copy of its sprite",
		Long: `Start runs that continue from where a node of another run began, or with --turn from the end of a turn of an agent (lattice
turns lists them): in each run the agent's session goes on from there, unless --set changes its prompt. Each gets a sprite of its own with a copy of the files of
that moment; the other run does not change. The new runs keep what the other run was started with, but ask the models that
the settings name now. --set writes variables first: x=text or x:=json for $vars.x, or a whole path such as $vars.a.b or
$tmp.c. --set '$in.x=text' changes the input x of the run, which the steps before the moment have read as it was. Actions that the new runs ask for need decisions of their own. The budget for models that was used up to the moment
counts in each new run, too.

If the host cannot copy sprites, the command ends with 8.
` + cli.ExitCodes,
		Example: "  lattice fork run_0123 --at edit\n  lattice fork run_0123 --turn 2\n  lattice fork run_0123 --at edit --set 'model=large' -n 3 --detach",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			at, err := moment()
			if err != nil {
				return err
			}
			if at == "" {
				return cli.UsageErrorf("name the node to continue from with --at, or a turn of an agent with --turn; lattice rewind and lattice turns list them")
			}
			req := api.ForkRequest{At: at, N: n, Detach: o.Detach}
			if req.Set, err = assignments(sets); err != nil {
				return err
			}
			return runFork(c.Context(), env, o, cli.Optional(list), req)
		},
	}
	o.AddFlags(cmd, env)
	cmd.Flags().StringVar(&node, "at", "", "the `NODE` to continue from, or NODE#N for its N-th time")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set a variable first: `x=text` or x:=json")
	cmd.Flags().IntVarP(&n, "number", "n", 1, "how many runs to start")
	_ = cmd.RegisterFlagCompletionFunc("number", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("set", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("at", complete.Moments(env))
	moment = addTurnFlag(cmd, env, "at", &node)
	return cmd
}

func runFork(ctx context.Context, env *setup.Env, o follow.Options, run string, req api.ForkRequest) error {
	conn, err := connect.Dial(ctx, env, o.Options)
	if err != nil {
		return err
	}
	defer conn.Close()
	before, err := conn.Run(ctx, run)
	if err != nil {
		return err
	}
	req.Models = env.Models().Named
	if req.Values, err = env.Values().Require(before, o.AgentEnv...); err != nil {
		return err
	}
	views, err := conn.Fork(ctx, before.RunID, req)
	if err != nil {
		return err
	}
	var first error
	for _, view := range views {
		fmt.Fprintf(env.Err, "%s continues from %s\n", view.RunID, view.ForkedFrom)
	}
	for _, view := range views {
		if o.Detach {
			err = conn.Detached(ctx, view, req.Values)
		} else {
			err = follow.Run(ctx, env.Console, conn, view, 0)
		}
		if ctx.Err() != nil {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}
