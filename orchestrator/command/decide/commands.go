// Package decide holds the commands with which a person answers waiting runs: one file per command. Begin with Commands. They
// never guess: if several runs wait, the person names one.
package decide

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// Commands returns the commands with which a person answers waiting runs.
func Commands(env *setup.Env) []*cobra.Command {
	return []*cobra.Command{
		newWaitingCmd(env),
		newActionCmd(env),
		newProposalCmd(env),
		newPolicyCmd(env),
		newAuditCmd(env),
		newBudgetCmd(env),
		newCostCmd(env),
		newSecretCmd(env),
		newApproveCmd(env),
		newRejectCmd(env),
		newAnswerCmd(env),
		newChooseCmd(env),
	}
}
