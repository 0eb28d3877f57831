package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newServeCmd(d *deps) *cobra.Command {
	var o leaderOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Lead in the foreground, and go on with interrupted runs",
		Long: `Lead the state directory until Ctrl-C: go on with every interrupted run, and drive what other commands start or answer.
When another process leads already, this one says so and ends with 6. Logs go to standard error as JSON.
` + exitCodes,
		Example: "  lattice serve",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			c, err := connect(ctx, d, o)
			if err != nil {
				return err
			}
			defer c.close()
			if c.leading == nil {
				hello, err := c.Hello(ctx)
				if err != nil {
					return err
				}
				return api.Refuse(protocol.ExitBusy, "led", fmt.Sprintf("process %d leads %s already", hello.PID, hello.Home), "")
			}
			runs, err := c.Runs(ctx)
			if err != nil {
				return err
			}
			var failed error
			for _, r := range runs {
				if r.Status == lattice.Running || r.Status == lattice.Pending {
					if _, err := c.Drive(ctx, r.RunID, nil); err != nil {
						failed = errors.Join(failed, fmt.Errorf("go on with %s: %w", r.RunID, err))
					}
				}
			}
			if failed != nil {
				fmt.Fprintf(d.err, "lattice: %v\n", failed)
			}
			hello := c.leading.Hello()
			if err := d.printJSON(map[string]any{"socket": c.socket, "pid": hello.PID, "isolation": hello.Isolation, "sandbox": hello.Sandbox}); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		},
	}
	o.addFlags(cmd)
	return cmd
}
