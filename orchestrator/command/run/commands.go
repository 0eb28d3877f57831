// Package run holds the commands that start runs, show them and end them: one file per command. Begin with Commands. They
// speak to the leader through package connect, and never to a sprite.
package run

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// Commands returns the commands that start runs, show them and end them.
func Commands(env *setup.Env) []*cobra.Command {
	return []*cobra.Command{
		newRunCmd(env),
		newRunsCmd(env),
		newTopCmd(env),
		newShowCmd(env),
		newLogsCmd(env),
		newEventsCmd(env),
		newTraceCmd(env),
		newArtifactsCmd(env),
		newCandidatesCmd(env),
		newResumeCmd(env),
		newCancelCmd(env),
	}
}
