// Package sprite holds the commands below lattice sprite, which work with sprites directly: one file per command, or per noun
// where a noun has several.
package sprite

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice sprite with groups, the commands below it that have packages of their own.
func New(env *setup.Env, groups ...*cobra.Command) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "sprite", Short: "Work with sprites (sandboxes) directly", Long: "Work with sprites directly: on the embedded host, or on a remote one when SPRITES_API_URL and SPRITES_TOKEN are set.\n" + cli.ExitCodes,
		Example: "  lattice sprite create box\n  lattice sprite exec box -- sh -c 'echo hello >/workspace/f'\n  lattice sprite checkpoint box --comment 'with f'"})
	cmd.AddCommand(
		newCreateCmd(env),
		newShowCmd(env),
		newLsCmd(env),
		newRmCmd(env),
		newCheckpointCmd(env),
		newCheckpointsCmd(env),
		newRestoreCmd(env),
		newForkCmd(env),
		newDiffCmd(env),
		newUsageCmd(env),
		newExecCmd(env),
		newConsoleCmd(env),
		newSessionsCmd(env),
		newAttachCmd(env),
		newKillCmd(env),
		newRestartCmd(env),
		newCheckCmd(env),
		newUpdateCmd(env),
		newTaskCmd(env),
		newInstallCmd(env),
		newServeCmd(env),
		newPolicyCmd(env),
		newPruneCmd(env),
		newProxyCmd(env),
		newPortsCmd(env),
		newURLCmd(env),
		newCpCmd(env),
		newFilesCmd(env),
		newWatchCmd(env),
	)
	cmd.AddCommand(groups...)
	complete.SpriteCommands(env, cmd)
	return cmd
}
