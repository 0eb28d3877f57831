package keep

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newCompletionCmd(env *setup.Env) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a completion script for a shell",
		Long: `Print a completion script for a shell. It completes commands and flags, the ids of runs, waits and checkpoints, and the names
of sprites, flows and permissions. Completing changes and starts nothing. In bash, the script needs the package
bash-completion.
` + cli.ExitCodes,
		Example: `  source <(lattice completion bash)
  lattice completion zsh >"${fpath[1]}/_lattice"
  lattice completion fish >~/.config/fish/completions/lattice.fish`,
		Args:      cli.Args(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, list []string) error {
			root := c.Root()
			switch list[0] {
			case "bash":
				return root.GenBashCompletionV2(env.Out, true)
			case "zsh":
				return root.GenZshCompletion(env.Out)
			case "fish":
				return root.GenFishCompletion(env.Out, true)
			}
			return root.GenPowerShellCompletionWithDesc(env.Out)
		},
	}
}
