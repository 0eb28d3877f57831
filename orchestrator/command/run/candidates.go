package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/skills/unified"
)

func newCandidatesCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewQueryCmd(env, "candidates [RUN]", "List the attempts that a run makes side by side, such as the tries of best-of-n",
		"  lattice candidates run_0123\n  lattice candidates --json | jq -r '.[1].patch'\n  lattice choose run_0123 1", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			found, err := c.Candidates(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, found, "TRY\tSTATE\tTESTS\tCOST\tCHANGE\tSPRITE\tURL", func(t api.Candidate) []any {
				tests, cost := "", ""
				if t.Tests != nil {
					tests = fmt.Sprintf("%s %d/%d", t.Tests.Status, t.Tests.Total-t.Tests.Failed, t.Tests.Total)
				}
				if t.CostUSD > 0 {
					cost = fmt.Sprintf("$%.4f", t.CostUSD)
				}
				return []any{t.Try, t.State, tests, cost, countChange(t.Patch), t.Sprite, t.URL}
			})
		})
	cmd.Long = `List the attempts that a run makes side by side, each in a copy of its sprite: state, tests, cost, change, and the copy while it
lives, which lattice sprite exec and lattice sprite url reach. With the input choose=true the flow best-of-n waits until a
person has chosen one (lattice choose).
` + cli.ExitCodes
	return cmd
}

// countChange shows how many lines a patch adds and removes, "" if it cannot be read.
func countChange(patch string) string {
	var files []unified.File
	if patch != "" { // Parse refuses a patch without a diff
		var err error
		if files, err = unified.Parse(patch); err != nil {
			return ""
		}
	}
	added, removed := 0, 0
	for _, f := range files {
		added, removed = added+f.Added(), removed+f.Removed()
	}
	return fmt.Sprintf("+%d -%d", added, removed)
}
