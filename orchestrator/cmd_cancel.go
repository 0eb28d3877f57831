package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newCancelCmd(d *deps) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cancel [RUN]",
		Short:   "End a run for good",
		Long:    "End a run for good; what it waits for is not decided any more.\n" + withoutRun + "Where none waits, the one run that has not ended is meant.\n" + exitCodes,
		Example: "  lattice cancel run_0123",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			conn, err := connect(c.Context(), d, leaderOptions{})
			if err != nil {
				return err
			}
			defer conn.close()
			chosen, err := chooseRun(c.Context(), conn, optional(list), true)
			if err != nil {
				return err
			}
			view, err := conn.Cancel(c.Context(), chosen.RunID, d.user)
			if err != nil {
				return err
			}
			if d.json {
				err = d.printJSON(view)
			} else {
				_, err = fmt.Fprintf(d.out, "%s %s\n", view.RunID, view.Status)
			}
			if err != nil {
				return err
			}
			if view.Status != lattice.Canceled {
				return &exitError{code: protocol.ExitFailed, err: fmt.Errorf("%s had already ended: %s", view.RunID, view.Status)}
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = completeRuns(d, unended)
	return cmd
}
