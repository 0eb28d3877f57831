// Package forge holds the commands about code hosts, one file each. Begin with New. The commands ask the code host and print; they
// never write there.
package forge

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice forge.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "forge",
		Short: "See and check the code hosts, GitHub or Gitea, where lattice acts",
		Long: `The settings name code hosts, [forges.NAME], with the account that lattice uses and the repositories that it may write to:

  [forges.main]
  kind = "github"                 # or "gitea", with its url
  token_env = "GITHUB_TOKEN"
  repositories = ["acme/site"]

When a skill asks for a pull request, a comment or labels in one of these repositories, lattice performs that itself after you
approve it, or when the policy allows it, and records it in the audit log. It happens once, also if lattice is killed or the
answer is lost. Pull requests are drafts. git reads and pushes these repositories with the same account. In any other
repository the requests are kept for you to perform.`,
		Example: "  lattice forge ls\n  lattice forge check main",
	})
	cmd.AddCommand(newLsCmd(env), newCheckCmd(env))
	return cmd
}

// completeNames offers the names of the code hosts.
func completeNames(env *setup.Env) cobra.CompletionFunc {
	return func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(list) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(env.Settings.Forges)), cobra.ShellCompDirectiveNoFileComp
	}
}
