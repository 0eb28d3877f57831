package follow

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// Options are the flags of the commands that have a run go on.
type Options struct {
	connect.Options
	AgentEnv []string
}

// AddFlags adds the flags, and completes the runs that keep accepts.
func (o *Options) AddFlags(cmd *cobra.Command, env *setup.Env, keep ...func(api.RunView) bool) {
	o.AddDetachFlag(cmd)
	o.AddWaitFlag(cmd)
	AddAgentEnvFlag(cmd, &o.AgentEnv)
	cmd.ValidArgsFunction = complete.Runs(env, keep...)
}

// AddAgentEnvFlag adds --agent-env to a command that has a run go on.
func AddAgentEnvFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVar(names, "agent-env", nil, "pass environment variable `NAME` to the agent (the variables that the run was started with are passed anyway)")
}

// Continue connects, has drive set the run going, and follows it, or leaves it to the background.
func Continue(ctx context.Context, env *setup.Env, o Options, run string, drive func(c *connect.Conn, before api.RunView) (api.RunView, api.Values, error)) error {
	c, err := connect.Dial(ctx, env, o.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	before, err := c.Run(ctx, run)
	if err != nil {
		return err
	}
	view, values, err := drive(c, before)
	if err != nil {
		return err
	}
	if o.Detach {
		return c.Detached(ctx, view, values)
	}
	return Run(ctx, env.Console, c, view, before.LastSeq)
}
