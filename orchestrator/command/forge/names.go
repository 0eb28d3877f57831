package forge

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// completeNames offers the names of the code hosts.
func completeNames(env *setup.Env) cobra.CompletionFunc {
	return func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(env.Settings.Forges)), cobra.ShellCompDirectiveNoFileComp
	}
}
