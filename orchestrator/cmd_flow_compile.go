package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newFlowCompileCmd(d *deps) *cobra.Command {
	var indent bool
	var from flowSources
	cmd := &cobra.Command{
		Use:   "compile FILE",
		Short: "Print the ExecIR that a flow is lowered to",
		Long: `Print the ExecIR that a flow is lowered to, in RFC 8785 form: equal flows give equal bytes. ExecIR is printed as it is.
A flow that does not compile prints its findings on standard error and exits 2.
` + sourcesHelp + exitCodes,
		Example: "  lattice flow compile flow.json | sha256sum",
		Args:    args(cobra.ExactArgs(1)), ValidArgsFunction: completeFlows,
		RunE: func(c *cobra.Command, list []string) error {
			flow, err := d.compileFlow(c.Context(), list[0], from)
			if err != nil {
				return err
			}
			if indent {
				return d.printIndented(flow.ExecIR)
			}
			_, err = fmt.Fprintf(d.out, "%s\n", strings.TrimRight(string(flow.ExecIR), "\n"))
			return err
		},
	}
	cmd.Flags().BoolVar(&indent, "indent", false, "indent it for reading")
	from.addFlags(cmd)
	return cmd
}

// printIndented prints a JSON document for reading.
func (d *deps) printIndented(doc any) error {
	enc := encoder(d.out)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}
