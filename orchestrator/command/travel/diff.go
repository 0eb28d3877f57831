package travel

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

func newDiffCmd(env *setup.Env) *cobra.Command {
	var patch bool
	cmd := connect.NewQueryCmd(env, "diff [RUN [A [B]]]", "Show what changed in variables and files between two moments of a run",
		"  lattice diff run_0123\n  lattice diff run_0123 edit test --json\n  lattice diff run_0123 edit --patch", cobra.MaximumNArgs(3),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			moments := append(list, "", "", "")[:3]
			diff, err := c.Compare(ctx, moments[0], moments[1], moments[2])
			if err != nil {
				return err
			}
			var p api.Patch
			if patch {
				if p, err = c.ComparedFiles(ctx, moments[0], moments[1], moments[2]); err != nil {
					return err
				}
			}
			switch {
			case env.JSON && patch:
				return env.PrintJSON(struct {
					api.Comparison
					api.Patch
				}{diff, p})
			case env.JSON:
				return env.PrintJSON(diff)
			case patch:
				return timeline.PrintPatch(env.Console, p)
			}
			return printComparison(env.Console, diff)
		})
	cmd.Flags().BoolVarP(&patch, "patch", "p", false, "print the content of the files that differ, except git's own, and no variables; with --json as the member patch")
	cmd.Long = "Show what changed in a run's variables and in its sprite's files between two moments: NODE is the last time that\nthe node began, NODE#N the N-th time. By default, A is the beginning of the run and B the present.\n" + cli.ExitCodes
	return cmd
}

func printComparison(console *cli.Console, diff api.Comparison) error {
	for _, v := range diff.Vars {
		switch {
		case v.From == nil:
			fmt.Fprintf(console.Out, "+ %s = %s\n", cli.Clean(v.Path), cli.Clean(short(v.To)))
		case v.To == nil:
			fmt.Fprintf(console.Out, "- %s = %s\n", cli.Clean(v.Path), cli.Clean(short(v.From)))
		default:
			fmt.Fprintf(console.Out, "~ %s = %s -> %s\n", cli.Clean(v.Path), cli.Clean(short(v.From)), cli.Clean(short(v.To)))
		}
	}
	marks := map[string]string{"added": "+", "deleted": "-"}
	for _, f := range diff.Files {
		mark, ok := marks[f.Change]
		if !ok {
			mark = "~"
		}
		fmt.Fprintf(console.Out, "%s %s\n", mark, cli.Clean(f.Path))
	}
	if diff.Note != "" {
		fmt.Fprintln(console.Err, cli.Clean(diff.Note))
	}
	return nil
}

// short is a value for a line of a terminal.
func short(value []byte) string {
	const most = 120
	text := []rune(string(value))
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most]) + "…"
}
