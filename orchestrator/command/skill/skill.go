// Package skill holds the commands below lattice skill, which list, check and call skills: one file per command. Begin with
// New. A skill of a folder never runs outside of a sprite.
package skill

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice skill.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "skill", Short: "Show, check and call the skills that flows are made of",
		Example: "  lattice skill ls\n  lattice skill call fs.list path=. --sprite box",
	})
	cmd.AddCommand(newLsCmd(env), newShowCmd(env), newValidateCmd(env), newTestCmd(env), newCallCmd(env))
	return cmd
}

// completeSkills completes the names of built-in skills.
func completeSkills(_ *cobra.Command, list []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, s := range manifests.Skills() {
		names = append(names, s.Name+"\t"+s.Description)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
