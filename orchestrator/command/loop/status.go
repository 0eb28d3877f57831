package loop

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/setup"
	loops "github.com/spritekit/lattice/spritekit/loop"
)

// defaultListed is how many loops are listed if nothing else is said.
const defaultListed = 50

func newStatusCmd(env *setup.Env) *cobra.Command {
	var check bool
	var which api.RunList
	cmd := connect.NewQueryCmd(env, "status [LOOP]", "Print where a loop stands, with its iterations; without a name, list the loops",
		"  lattice loop status\n  lattice loop status feature-x --json\n  lattice loop status feature-x --exit-code", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if len(list) == 0 && !check {
				return listLoops(ctx, env, c, which)
			}
			if which != (api.RunList{Limit: defaultListed}) {
				return cli.UsageErrorf("--limit, --before and --open are for the list of loops")
			}
			v, err := findLoop(ctx, c, cli.Optional(list), false, isLoop)
			if err != nil {
				return err
			}
			view, err := inspectLoop(ctx, c, v)
			if err != nil {
				return err
			}
			if err := printLoop(env.Console, view); err != nil || !check || view.Exit == 0 {
				return err
			}
			return &cli.ExitError{Code: view.Exit}
		})
	cmd.Long = `Print where a loop stands, with its iterations. Everything is read from the journal, so it is true at any time, also after lattice
was killed. With --exit-code the command ends with the exit code of the loop.
` + exitCodes
	cmd.Flags().IntVarP(&which.Limit, "limit", "n", defaultListed, "list at most this many loops; 0 lists all")
	cmd.Flags().StringVar(&which.Before, "before", "", "list loops older than this `RUN`")
	cmd.Flags().BoolVar(&which.Open, "open", false, "list only loops that have not ended")
	cmd.Flags().BoolVar(&check, "exit-code", false, "end with the exit code of the loop, of the newest one without a name")
	cmd.ValidArgsFunction = completeLoops(env, isLoop)
	return cmd
}

func listLoops(ctx context.Context, env *setup.Env, c *connect.Conn, which api.RunList) error {
	which.Flow = loop.Flow
	runs, older, err := c.PageOfRuns(ctx, which)
	if err != nil {
		return err
	}
	if older != "" {
		defer fmt.Fprintf(env.Err, "for older loops: lattice loop status --before %s, or --limit 0 for all\n", older)
	}
	var all []loop.View
	for _, r := range runs {
		view, err := inspectLoop(ctx, c, r)
		if err != nil {
			return err
		}
		all = append(all, view)
	}
	return cli.PrintTable(env.Console, all, "LOOP\tSTATUS\tITERATIONS\tTASKS\tCOST\tAGE\tREASON", func(v loop.View) []any {
		return []any{v.Name, v.Status, v.Count, fmt.Sprintf("%d/%d", v.Completed, len(v.Tasks)), formatCost(v.CostUSD), cli.Age(v.Started), clipLine(v.Reason, 60)}
	})
}

func formatCost(usd float64) string {
	if usd == 0 {
		return "-"
	}
	return fmt.Sprintf("$%.2f", usd)
}

// clipLine returns the first line of text, at most n characters of it.
func clipLine(text string, n int) string {
	text = cli.CleanLine(text)
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

// printLoop prints a loop and the commands that come next.
func printLoop(console *cli.Console, v loop.View) error {
	if console.JSON {
		return console.PrintJSON(v)
	}
	out := cli.Sanitize(console.Out)
	fmt.Fprintf(out, "%s  %s", v.Name, v.Status)
	if v.Working > 0 && v.Status == loop.Running {
		fmt.Fprintf(out, ", in iteration %d", v.Working)
	}
	cost := "cost unknown" // agents that are told no price, and programs, report none
	if v.CostUSD != 0 {
		cost = formatCost(v.CostUSD)
	}
	fmt.Fprintf(out, "\n  run %s, sprite %s, %d of %d tasks, %s, %s of work\n", v.RunID, v.Sprite, v.Completed, len(v.Tasks),
		cost, (time.Duration(v.DurationS * float64(time.Second))).Round(time.Second))
	if v.Reason != "" {
		fmt.Fprintf(out, "  reason: %s\n", clipLine(v.Reason, 2000))
	}
	for _, t := range v.Tasks {
		mark := " "
		if t.Passes {
			mark = "x"
		}
		fmt.Fprintf(out, "  [%s] %s\n", mark, clipLine(t.Description, 150))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(v.Iterations) > 0 {
		fmt.Fprintln(w, "  #\tDECISION\tAGENT\tVERIFIED\tTASKS\tCOMMIT\tCOST\tTIME\tSUMMARY")
	}
	for _, e := range v.Iterations {
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%d/%d\t%.10s\t%s\t%s\t%s\n", e.Iteration, e.Decision, statusOf(e), verdictOf(e), e.TasksCompleted, e.Tasks, e.Commit,
			formatCost(e.CostUSD), (time.Duration(e.DurationMS) * time.Millisecond).Round(100*time.Millisecond), clipLine(e.Summary, 60))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, next := range v.Next {
		word := "next"
		if i > 0 {
			word = "  or"
		}
		fmt.Fprintf(console.Err, "  %s: %s\n", word, next)
	}
	return nil
}

func statusOf(e loops.Entry) string {
	if e.Status == "" {
		return "-"
	}
	return string(e.Status)
}

func verdictOf(e loops.Entry) string {
	switch {
	case e.Green:
		return "green"
	case e.Commit == "":
		return "-"
	}
	return "red"
}
