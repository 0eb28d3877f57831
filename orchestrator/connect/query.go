package connect

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// NewQueryCmd makes a command that asks the leader and prints.
func NewQueryCmd(env *setup.Env, use, short, example string, check cobra.PositionalArgs, do func(context.Context, *Conn, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n" + cli.ExitCodes, Example: example, Args: cli.Args(check),
		RunE: func(c *cobra.Command, list []string) error {
			conn, err := Dial(c.Context(), env, Options{})
			if err != nil {
				return err
			}
			defer conn.Close()
			return do(c.Context(), conn, list)
		},
		ValidArgsFunction: complete.Runs(env),
	}
	return cmd
}
