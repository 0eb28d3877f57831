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
	var at string
	var sets []string
	var n int
	cmd := &cobra.Command{
		Use:   "fork [RUN] --at NODE",
		Short: "Start runs that go on from a moment of another run, each in a copy of its sprite",
		Long: `Start runs that go on from where a node of another run began, each in a sprite of its own: a copy of the files of that
moment. The other run is not touched. They have what it was started with, but ask the models that the settings name now. --set writes variables first: x=text or x:=json for $vars.x, or a whole path such as
$vars.a.b or $tmp.c. Actions that the copies ask for are decided anew. What questions to models took up to there counts in
each copy, too.

Hosts whose sprites cannot be copied refuse with 8.
` + cli.ExitCodes,
		Example: "  lattice fork run_0123 --at edit\n  lattice fork run_0123 --at edit --set 'model=large' -n 3 --detach",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if at == "" {
				return cli.UsageErrorf("--at names the node to go on from; lattice rewind lists them")
			}
			req := api.ForkRequest{At: at, N: n, Detach: o.Detach}
			var err error
			if req.Set, err = assignments(sets); err != nil {
				return err
			}
			return runFork(c.Context(), env, o, cli.Optional(list), req)
		},
	}
	o.AddFlags(cmd, env)
	cmd.Flags().StringVar(&at, "at", "", "the `NODE` to go on from, or NODE#N for its N-th time")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "write a variable first: `x=text` or x:=json")
	cmd.Flags().IntVarP(&n, "number", "n", 1, "how many copies")
	_ = cmd.RegisterFlagCompletionFunc("at", complete.Moments(env))
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
	if req.Values, err = env.RequiredValues(before, o.AgentEnv...); err != nil {
		return err
	}
	views, err := conn.Fork(ctx, before.RunID, req)
	if err != nil {
		return err
	}
	var first error
	for _, view := range views {
		fmt.Fprintf(env.Err, "%s goes on from %s\n", view.RunID, view.ForkedFrom)
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
