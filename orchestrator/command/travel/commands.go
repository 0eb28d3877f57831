// Package travel holds the commands that look into a run's past and go on from there: one file per command. Begin with
// Commands. Nothing that a run did is ever deleted.
package travel

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// Commands returns the commands that look into a run's past and go on from there.
func Commands(env *setup.Env) []*cobra.Command {
	return []*cobra.Command{
		newReplayCmd(env),
		newVerifyCmd(env),
		newTurnsCmd(env),
		newRewindCmd(env),
		newForkCmd(env),
		newDiffCmd(env),
	}
}
