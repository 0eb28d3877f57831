package keep

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newStoreCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:     "store",
		Short:   "Look after the file that holds all runs: check, compact, backup, restore, repair",
		Example: "  lattice store check\n  lattice store backup runs-today.tar",
	})
	cmd.AddCommand(newStoreCheckCmd(env), newStoreCompactCmd(env), newStoreBackupCmd(env), newStoreRestoreCmd(env), newStoreRepairCmd(env))
	return cmd
}
