package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group makes a command that only holds others show its help, and refuse a name that it does not know.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = Args(func(c *cobra.Command, list []string) error {
		if len(list) == 0 {
			return nil
		}
		hint := ""
		if near := c.SuggestionsFor(list[0]); len(near) > 0 {
			hint = " (did you mean " + strings.Join(near, " or ") + "?)"
		}
		return fmt.Errorf("unknown command %q%s", list[0], hint)
	})
	cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return cmd
}

// Args wraps a cobra argument check so that its failure exits with 2.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		if err := check(c, list); err != nil {
			return UsageErrorf("%w: %s", err, c.UseLine())
		}
		return nil
	}
}

func Optional(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
