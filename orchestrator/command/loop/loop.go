// Package loop holds the commands about loops: lattice loop and one file for each kind of verb. Begin with New. A loop is a run of
// the flow loop; the commands start, show and decide such runs, and know nothing that the run's journal does not tell.
package loop

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice loop.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "loop",
		Short: "Let an agent work on a list of tasks until a verification proves it",
		Long: `A loop calls an agent again and again. After each call it commits the changes, verifies the commit in a fork with the test files
of the first commit, and decides how to go on. It is done only if the agent says so, all tasks of the list pass, and the
verification is green. A loop that stops waits for a person; docs/loop.md has the table of decisions.

LOOP is the name or the run of a loop. Without it, the newest loop counts, or the only one that the command can act on.
` + exitCodes,
		Example: `  lattice loop start --repo . --spec spec.md --agent claude --verify 'go test ./...'
  lattice loop status
  lattice loop resume --answer 'use the second one'`,
	})
	cmd.AddCommand(newStartCmd(env), newStatusCmd(env), newShowCmd(env), newTailCmd(env), newStopCmd(env), newAttachCmd(env), newResumeCmd(env), newRewindCmd(env),
		newUpdateCmd(env), newReviewCmd(env), newDoneCmd(env), newAbandonCmd(env))
	return cmd
}
