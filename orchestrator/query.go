package main

import (
	"context"

	"github.com/spf13/cobra"
)

// query makes a command that asks the leader and prints.
func (d *deps) query(use, short, example string, check cobra.PositionalArgs, do func(context.Context, *conn, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n" + exitCodes, Example: example, Args: args(check),
		RunE: func(c *cobra.Command, list []string) error {
			conn, err := connect(c.Context(), d, leaderOptions{})
			if err != nil {
				return err
			}
			defer conn.close()
			return do(c.Context(), conn, list)
		},
		ValidArgsFunction: completeRuns(d),
	}
	return cmd
}
