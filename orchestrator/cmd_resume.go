package main

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
)

func newResumeCmd(d *deps) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Go on with a run that was interrupted",
		Long: `Go on with a run that was interrupted (Ctrl-C, a crash, a host that could not be reached). What was done is not done
again; what was cut off is settled first. Resuming a run that goes on, waits or has ended changes nothing.

The run has what it was started with: its network, host ports, limits, isolation, image, tools, skills and models, whatever
the settings say by now. Values of --agent-env are kept nowhere: a variable that the run was started with and that is not
set here ends the command with 2.
` + exitCodes,
		Example: "  lattice resume\n  lattice resume run_0123",
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
			d.sayModels(before)
			values, err := d.resumedValues(before, o.agentEnv)
			if err != nil {
				return err
			}
			view, err := conn.Drive(ctx, before.RunID, api.DriveRequest{Values: values, Detach: o.detach})
			if err != nil {
				return err
			}
			if o.detach {
				return conn.detached(ctx, view, values)
			}
			return follow(ctx, d, conn, view, before.LastSeq)
		},
	}
	o.addDetachFlag(cmd)
	o.addWaitFlag(cmd)
	cmd.Flags().StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent (those of the run's start are taken anyway)")
	cmd.ValidArgsFunction = completeRuns(d, unended)
	return cmd
}
