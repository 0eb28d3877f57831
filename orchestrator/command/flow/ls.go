package flow

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newLsCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the built-in flows", Example: "  lattice flow ls", Args: cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if env.JSON {
				return env.PrintJSON(manifests.Flows())
			}
			for _, name := range manifests.Flows() {
				if _, err := fmt.Fprintln(env.Out, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
