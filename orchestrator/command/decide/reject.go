package decide

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newRejectCmd(env *setup.Env) *cobra.Command {
	cmd := verdictCmd(env, "reject", lattice.Reject, "  lattice reject run_0123 --comment 'not on a Friday'")
	cmd.Long = `Reject what a run waits for. A skill that asked for something is told so and ends as it sees fit; a question of the flow
itself fails with human_rejected. A run that ends by that ends the command with 0. Rejecting twice is the same as rejecting once; who rejects what was approved is told by
whom and when, and ends with 6.
` + connect.WithoutRun + cli.ExitCodes
	return cmd
}
