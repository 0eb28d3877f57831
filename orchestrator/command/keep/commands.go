// Package keep holds the commands that look after an installation: its leader, store, health and completion. One file per
// command.
package keep

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// Commands returns the commands that look after this installation.
func Commands(env *setup.Env) []*cobra.Command {
	return []*cobra.Command{
		newServeCmd(env),
		newMCPCmd(env),
		newOpenCmd(env),
		newTokenCmd(env),
		newStoreCmd(env),
		newDoctorCmd(env),
		newExplainCmd(env),
		newNotifyCmd(env),
		newProtocolCmd(),
		newCompletionCmd(env),
		newVersionCmd(env),
	}
}
