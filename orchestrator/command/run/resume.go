package run

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newResumeCmd(env *setup.Env) *cobra.Command {
	var o follow.Options
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Resume a run that was interrupted",
		Long: `Resume a run that was interrupted by Ctrl-C, a crash or a host that could not be reached. Finished steps are not repeated;
a step that was cut off is settled first. Resuming a run that is running, waits or has ended changes nothing; a run that
waits for a time, such as the end of a usage limit, is followed and goes on then.

The run keeps what it was started with: its network, host ports, limits, isolation, image, tools, skills and models, even if
the settings have changed since. Values of --agent-env are never stored: if a variable that the run was started with is not
set now, the command ends with 2.
` + cli.ExitCodes,
		Example: "  lattice resume\n  lattice resume run_0123",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			ctx := c.Context()
			return follow.Continue(ctx, env, o, cli.Optional(list), func(c *connect.Conn, before api.RunView) (view api.RunView, values api.Values, err error) {
				setup.WarnOfChangedModels(env, before)
				if values, err = env.Values().Resume(before, o.AgentEnv); err != nil {
					return view, values, err
				}
				view, err = c.Drive(ctx, before.RunID, api.DriveRequest{Values: values, Detach: o.Detach})
				return view, values, err
			})
		},
	}
	o.AddFlags(cmd, env, complete.IsOpen)
	return cmd
}
