package travel

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

func newDiffCmd(env *setup.Env) *cobra.Command {
	var patch bool
	var with string
	cmd := connect.NewQueryCmd(env, "diff [RUN [A [B]]]", "Show what changed in variables and files between two moments of a run, or two runs",
		"  lattice diff run_0123\n  lattice diff run_0123 --with run_4567\n  lattice diff run_0123 edit test --json\n  lattice diff run_0123 edit --patch", cobra.MaximumNArgs(3),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if with != "" {
				return compareRuns(ctx, env, c, list, with, patch)
			}
			moments := append(list, "", "", "")[:3]
			diff, err := c.Compare(ctx, moments[0], moments[1], moments[2])
			if err != nil {
				return err
			}
			var p difference.Patch
			if patch {
				if p, err = c.ComparedFiles(ctx, moments[0], moments[1], moments[2]); err != nil {
					return err
				}
			}
			switch {
			case env.JSON && patch:
				return env.PrintJSON(struct {
					api.Comparison
					difference.Patch
				}{diff, p})
			case env.JSON:
				return env.PrintJSON(diff)
			case patch:
				return timeline.PrintPatch(env.Console, p)
			}
			return printComparison(env.Console, diff)
		})
	cmd.Flags().BoolVarP(&patch, "patch", "p", false, "print the content of the files that differ, except git's own, and no variables; with --json as the member patch")
	cmd.Flags().StringVar(&with, "with", "", "compare the run with `RUN`: nodes, variables, outputs, and the files that either has changed")
	_ = cmd.RegisterFlagCompletionFunc("with", complete.Runs(env, func(api.RunView) bool { return true }))
	cmd.Long = "Show what changed in a run's variables and in its sprite's files between two moments: NODE is the last time that\nthe node began, NODE#N the N-th time, @N the end of turn N of an agent.\nBy default, A is the beginning of the run and B the present.\n\nWith --with, compare the present of two runs: the nodes that went another way, variables, outputs, and the files that either run\nhas changed since its beginning.\n" + cli.ExitCodes
	return cmd
}

// compareRuns prints how two runs differ.
func compareRuns(ctx context.Context, env *setup.Env, c *connect.Conn, list []string, with string, patch bool) error {
	if len(list) > 1 {
		return cli.UsageErrorf("--with compares runs as they are; it takes no moments")
	}
	diff, err := c.CompareRuns(ctx, cli.Optional(list), with)
	switch {
	case err != nil:
		return err
	case env.JSON:
		return env.PrintJSON(diff)
	case patch:
		return timeline.PrintPatch(env.Console, diff.Patch)
	}
	describe := func(s *difference.Side) string {
		if s == nil {
			return "not begun"
		}
		text := s.State
		if s.Visits > 1 {
			text = fmt.Sprintf("%s, %d visits", text, s.Visits)
		}
		return cli.Clean(text)
	}
	for _, n := range diff.Nodes {
		if !n.Differs() {
			continue
		}
		from, to := describe(n.From), describe(n.To)
		if from == to { // they said something else
			from, to = from+", "+cli.Clean(short([]byte(n.From.Message))), to+", "+cli.Clean(short([]byte(n.To.Message)))
		}
		fmt.Fprintf(env.Out, "~ node %s: %s -> %s\n", cli.Clean(n.Node), from, to)
	}
	return printComparison(env.Console, api.Comparison{Vars: diff.Vars, Files: diff.Files, Note: diff.Note})
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
