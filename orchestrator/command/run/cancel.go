package run

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newCancelCmd(env *setup.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cancel [RUN]",
		Short:   "End a run for good",
		Long:    "End a run for good. Whatever it waits for can no longer be decided.\n" + connect.WithoutRun + "If no run waits, the only run that has not ended is canceled.\n" + cli.ExitCodes,
		Example: "  lattice cancel run_0123",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			conn, err := connect.Dial(c.Context(), env, connect.Options{})
			if err != nil {
				return err
			}
			defer conn.Close()
			chosen, err := connect.ChooseRun(c.Context(), conn, cli.Optional(list), true)
			if err != nil {
				return err
			}
			view, err := conn.Cancel(c.Context(), chosen.RunID, env.User)
			if err != nil {
				return err
			}
			err = env.PrintResult(view, "%s %s", view.RunID, view.Status)
			if err != nil {
				return err
			}
			if view.Status != lattice.Canceled {
				return &cli.ExitError{Code: protocol.ExitFailed, Err: fmt.Errorf("%s had already ended: %s", view.RunID, view.Status)}
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = complete.Runs(env, complete.IsOpen)
	return cmd
}
