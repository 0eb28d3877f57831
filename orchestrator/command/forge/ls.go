package forge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// hostView is a code host as forge ls shows it.
type hostView struct {
	Name         string          `json:"name"`
	Kind         forge.Kind      `json:"kind"`
	URL          string          `json:"url"`
	Repositories []string        `json:"repositories"`
	Capabilities []forge.Support `json:"capabilities"`
}

func newLsCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the code hosts of the settings; with --json also what each can do",
		Example: "  lattice forge ls\n  lattice forge ls --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			views := []hostView{}
			for _, name := range slices.Sorted(maps.Keys(env.Settings.Forges)) {
				s := env.Settings.Forges[name]
				views = append(views, hostView{name, forge.Kind(s.Kind), setup.WebOf(s), append([]string{}, s.Repositories...), forge.Capabilities(forge.Kind(s.Kind))})
			}
			if len(views) == 0 && !env.JSON {
				_, err := fmt.Fprintln(env.Out, "the settings name no code hosts (lattice help forge)")
				return err
			}
			return cli.PrintTable(env.Console, views, "FORGE\tKIND\tURL\tREPOSITORIES", func(v hostView) []any {
				return []any{v.Name, v.Kind, v.URL, strings.Join(v.Repositories, " ")}
			})
		},
	}
}
