// Package flow holds the commands below lattice flow, which compose, check and draw flows: one file per command. Begin with
// New. Nothing of a flow runs here, and nothing but a draft by a model needs the leader.
package flow

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice flow.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "flow", Short: "Compose, check and draw flows",
		Long: `Compose, check and draw flows.

A flow is a workflow graph ("workflow_version", the form that people write), a plan ("planir_version", steps towards a goal)
or ExecIR ("execir_version", the form that runs; the others are lowered to it). Instead of a FILE, a command takes - for
standard input or the name of a built-in flow.
` + cli.ExitCodes,
		Example: "  lattice flow new 'fs.write path=a content=hi | fs.read path=a' -o f.json\n  lattice flow validate f.json\n  lattice flow graph fix-and-propose",
	})
	cmd.AddCommand(newNewCmd(env), newLsCmd(env), newShowCmd(env), newValidateCmd(env), newCompileCmd(env), newGraphCmd(env),
		newExplainCmd(env), newMigrateCmd(env), newPlanCmd(env), newStepsCmd(env))
	return cmd
}
