package main

import (
	"github.com/spf13/cobra"
)

func newFlowShowCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use: "show FLOW", Short: "Print a flow's document", Example: "  lattice flow show test-only > mine.json", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeFlows,
		RunE: func(c *cobra.Command, list []string) error {
			doc, _, err := d.openFlow(c.Context(), list[0])
			if err != nil {
				return err
			}
			_, err = d.out.Write(doc)
			return err
		},
	}
}
