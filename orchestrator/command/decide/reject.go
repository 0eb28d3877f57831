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
	cmd.Long = `Reject what a run waits for. A skill that asked for something is told so, and decides how to end; a question of the flow
itself fails with human_rejected. If the run ends because of the rejection, the command ends with 0. Rejecting twice is the
same as rejecting once. If the request was already approved, the command ends with 6 and says who approved it, and when.
` + connect.WithoutRun + cli.ExitCodes
	return cmd
}
