package run

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

func newShowCmd(env *setup.Env) *cobra.Command {
	var patch bool
	cmd := connect.NewQueryCmd(env, "show [RUN]", "Show a run: where it stands, its timeline, what it waits for", "  lattice show\n  lattice show run_0123 --json\n  lattice show --patch", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			v, err := c.Run(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			if patch {
				return showPatch(ctx, env.Console, c, v)
			}
			actions, err := c.Actions(ctx, v.RunID)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(api.RunWithActions{RunView: v, Actions: actions})
			}
			fmt.Fprintf(env.Out, "%s  %s  %s\n", v.RunID, timeline.DescribeStatus(v), v.Flow)
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			for _, row := range [][2]string{{"work item", v.WorkItem}, {"repository", v.Repo}, {"sprite", v.Sprite}, {"answers", v.ResumedFrom}, {"goes on in", v.ContinuedIn}, {"forked from", v.ForkedFrom}, {"started", v.CreatedAt.Local().Format(time.DateTime)}, {"models", timeline.DescribeModels(v.Models)}, {"spent", timeline.DescribeBudgets(v.Budgets)}, {"note", v.Note}} {
				if row[1] != "" {
					fmt.Fprintf(w, "  %s\t%s\n", row[0], row[1])
				}
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if err := printTimeline(ctx, env.Console, c, v); err != nil {
				return err
			}
			for _, wait := range v.Waits {
				follow.DescribeWait(env.Err, v, wait)
			}
			timeline.DescribeActions(env.Err, actions)
			if v.Status == lattice.Failed {
				follow.DescribeFailure(env.Console, v)
			}
			follow.PrintOutputs(env.Console, v.Outputs)
			printReports(env.Console, v.Record)
			return nil
		})
	cmd.Flags().BoolVarP(&patch, "patch", "p", false, "print only the content of the change that the run asks to push, or asked for last; with --json as the member patch")
	return cmd
}

// printReports prints the summaries of the reports that a run declared, and their findings.
func printReports(console *cli.Console, record *api.Record) {
	if record == nil {
		return
	}
	for _, p := range record.Artifacts {
		if p.Report == nil {
			continue
		}
		fmt.Fprintf(console.Out, "%s  %s\n", cli.Clean(p.Ref), p.Report)
		for _, f := range p.Report.Findings {
			fmt.Fprintf(console.Out, "  %s\n", cli.Clean(f.String()))
		}
		if p.Report.Omitted > 0 {
			fmt.Fprintf(console.Out, "  and %d more\n", p.Report.Omitted)
		}
	}
}

// showPatch prints the content of the change that a run asks to push.
func showPatch(ctx context.Context, console *cli.Console, c *connect.Conn, v api.RunView) error {
	p, err := c.Proposed(ctx, v.RunID, "")
	if err != nil {
		return err
	}
	if console.JSON {
		return console.PrintJSON(struct {
			api.RunView
			difference.Patch
		}{v, p})
	}
	return timeline.PrintPatch(console, p)
}

// printTimeline prints one line per node visit, and below a MAP one per iteration.
func printTimeline(ctx context.Context, console *cli.Console, c *connect.Conn, v api.RunView) error {
	t := timeline.New()
	if err := c.Outline(ctx, v.RunID, 0, func(e lattice.Entry) error { t.Add(e); return nil }); err != nil {
		return err
	}
	t.Pause(v.Waits)
	for _, line := range t.Lines(time.Now(), console.Coloured()) {
		fmt.Fprintf(console.Out, "  %s\n", line)
	}
	return nil
}
