package flow

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
)

func newStepsCmd(env *setup.Env) *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use: "steps", Short: "List the step types that plans are made of",
		Long: `List the step types that plans are made of, with their inputs, outputs and meaning. Add your own with --steps DIR; the files
in manifests/steps are examples.
` + cli.ExitCodes,
		Example: "  lattice flow steps\n  lattice flow steps --steps ./my-steps --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			rules, err := sources.ReadRules(env, dirs)
			if err != nil {
				return err
			}
			if env.JSON {
				list := []compile.Rule{}
				for _, name := range rules.Types() {
					list = append(list, rules[name])
				}
				return env.PrintJSON(list)
			}
			for _, name := range rules.Types() {
				rule := rules[name]
				if _, err := fmt.Fprintln(env.Out, cli.Clean(rule.Describe())); err != nil {
					return err
				}
			}
			return nil
		},
	}
	sources.AddStepsFlag(cmd, &dirs)
	return cmd
}
