package decide

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newChooseCmd(env *setup.Env) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:   "choose [RUN] TRY",
		Short: "Choose one of the tries of a run, which goes on with it",
		Long: `Choose one of the tries of a run that asks which to keep, by its number in lattice candidates. It is the same as
lattice answer try=TRY: the first answer counts.
` + connect.WithoutRun + cli.ExitCodes,
		Example: "  lattice run best-of-n --repo . --input-file tries.json --input choose:=true\n  lattice candidates\n  lattice choose 1",
		Args:    cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, list []string) error {
			try := list[len(list)-1]
			if n, err := strconv.Atoi(try); err != nil || n < 0 {
				return cli.UsageErrorf("TRY is the number of a try, not %q; lattice candidates lists them", try)
			}
			return runDecide(c.Context(), env, o, cli.Optional(list[:len(list)-1]), lattice.Answer, []string{"try=" + try})
		},
	}
	o.addDecideFlags(cmd, env)
	cmd.ValidArgsFunction = complete.Runs(env)
	return cmd
}
