package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
)

func newFlowLsCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the built-in flows", Example: "  lattice flow ls", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if d.json {
				return d.printJSON(manifests.Flows())
			}
			for _, name := range manifests.Flows() {
				if _, err := fmt.Fprintln(d.out, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
