package flow

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/leader/flows"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newLsCmd(env *setup.Env) *cobra.Command {
	long := false
	cmd := &cobra.Command{
		Use: "ls", Short: "List the built-in flows, and the flow files of the folders that the setting flows names",
		Long: `List the built-in flows, and the flow files of the folders that the setting flows names. On a terminal, or with --long, the first
sentence of each flow's description follows its name; lattice flow show prints a whole flow.`,
		Example: "  lattice flow ls\n  lattice flow ls --long | grep review", Args: cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			list := slices.Clone(manifests.Flows())
			for _, folder := range env.Flows() {
				names, err := flows.ListFolder(folder)
				if err != nil {
					return err
				}
				for _, name := range names {
					list = append(list, filepath.Join(folder, name+".json"))
				}
			}
			if long || env.JSON || env.Terminal {
				return cli.PrintTable(env.Console, list, "FLOW\tDESCRIPTION", func(name string) []any { return []any{name, describeFlow(name)} })
			}
			for _, name := range list {
				if _, err := fmt.Fprintln(env.Out, cli.Clean(name)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "print the descriptions, too")
	return cmd
}

// describeFlow returns the first sentence of the description of a flow, "" if it has none or cannot be read.
func describeFlow(name string) string {
	data, builtin := manifests.Flow(name)
	if !builtin {
		data, _ = os.ReadFile(name)
	}
	var flow struct{ Description string }
	if json.Unmarshal(data, &flow) != nil {
		return ""
	}
	sentence, _, _ := strings.Cut(cli.CleanLine(flow.Description), ". ")
	return strings.TrimSuffix(sentence, ".")
}
