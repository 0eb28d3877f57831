package flow

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newValidateCmd(env *setup.Env) *cobra.Command {
	var from sources.Options
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a flow and print every finding at once",
		Long: `Check a flow: versions, references, types, reachability, tools. All findings are printed, and the command
ends with 2 if one of them is an error.
With --json: {"ok":…,"findings":[{"code","severity","pointer","line","column","node","message","hint"}]}.
` + sources.Help + cli.ExitCodes,
		Example: "  lattice flow validate flow.json --json",
		Args:    cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: sources.CompleteFlows,
		RunE: func(c *cobra.Command, list []string) error {
			doc, _, err := sources.Open(c.Context(), env.Console, list[0])
			if err != nil {
				return err
			}
			flow, findings, err := sources.Check(env, doc, from)
			if err != nil {
				return err
			}
			if err := sources.PrintFindings(env.Console, findings); err != nil {
				return err
			}
			if flow == nil {
				return &cli.ExitError{Code: protocol.ExitBadInput}
			}
			if !env.JSON {
				_, err = fmt.Fprintf(env.Out, "ok %s\n", flow.Program.Digest)
			}
			return err
		},
	}
	from.AddFlags(cmd)
	return cmd
}
