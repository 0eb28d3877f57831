package flow

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
)

func newCompileCmd(env *setup.Env) *cobra.Command {
	var indent bool
	var from sources.Options
	cmd := &cobra.Command{
		Use:   "compile FILE",
		Short: "Print the ExecIR that a flow is lowered to",
		Long: `Print the ExecIR that a flow is lowered to, in the form of RFC 8785: equal flows give equal bytes. ExecIR is printed unchanged.
If the flow does not compile, the command prints the findings to standard error and ends with 2.
` + sources.Help + cli.ExitCodes,
		Example: "  lattice flow compile flow.json | sha256sum",
		Args:    cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: sources.CompleteFlows,
		RunE: func(c *cobra.Command, list []string) error {
			flow, err := sources.Compile(c.Context(), env, list[0], from)
			if err != nil {
				return err
			}
			if indent {
				return env.PrintIndented(flow.ExecIR)
			}
			_, err = fmt.Fprintf(env.Out, "%s\n", strings.TrimRight(string(flow.ExecIR), "\n"))
			return err
		},
	}
	cmd.Flags().BoolVar(&indent, "indent", false, "indent the document")
	from.AddFlags(cmd)
	return cmd
}
