package flow

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
)

func newShowCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show FLOW", Short: "Print a flow's document", Example: "  lattice flow show test-only > mine.json", Args: cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: sources.CompleteFlows,
		RunE: func(c *cobra.Command, list []string) error {
			doc, _, err := sources.Open(c.Context(), env.Console, list[0])
			if err != nil {
				return err
			}
			_, err = env.Out.Write(doc)
			return err
		},
	}
}
