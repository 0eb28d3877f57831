package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

func newShowCmd(d *deps) *cobra.Command {
	var patch bool
	cmd := d.query("show [RUN]", "Show a run: where it stands, its timeline, what it waits for", "  lattice show\n  lattice show run_0123 --json\n  lattice show --patch", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *conn, list []string) error {
			v, err := c.Run(ctx, optional(list))
			if err != nil {
				return err
			}
			if patch {
				return showPatch(ctx, d, c, v)
			}
			actions, err := c.Actions(ctx, v.RunID)
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(runWithActions{v, actions})
			}
			fmt.Fprintf(d.out, "%s  %s  %s\n", v.RunID, statusText(v), v.Flow)
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			for _, row := range [][2]string{{"work item", v.WorkItem}, {"repository", v.Repo}, {"sprite", v.Sprite}, {"answers", v.ResumedFrom}, {"goes on in", v.ContinuedIn}, {"forked from", v.ForkedFrom}, {"started", v.CreatedAt.Local().Format(time.DateTime)}, {"models", modelsText(v.Models)}, {"note", v.Note}} {
				if row[1] != "" {
					fmt.Fprintf(w, "  %s\t%s\n", row[0], row[1])
				}
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if err := printTimeline(ctx, d, c, v); err != nil {
				return err
			}
			for _, wait := range v.Waits {
				describeWait(d.err, v, wait)
			}
			describeActions(d.err, actions)
			if v.Status == lattice.Failed {
				describeFailure(d, v)
			}
			printOutputs(d, v.Outputs)
			return nil
		})
	cmd.Flags().BoolVarP(&patch, "patch", "p", false, "the content of what the run asks to push, or asked last, and nothing else; with --json as the member patch")
	return cmd
}

// showPatch prints the content of what a run asks to push.
func showPatch(ctx context.Context, d *deps, c *conn, v api.RunView) error {
	p, err := c.Proposed(ctx, v.RunID, "")
	if err != nil {
		return err
	}
	if d.json {
		return d.printJSON(struct {
			api.RunView
			api.Patch
		}{v, p})
	}
	return d.printPatch(p)
}

// printTimeline prints one line per node visit, and below a MAP one per iteration.
func printTimeline(ctx context.Context, d *deps, c *conn, v api.RunView) error {
	t := newTimeline()
	if err := c.Outline(ctx, v.RunID, 0, func(e lattice.Entry) error { t.add(e); return nil }); err != nil {
		return err
	}
	t.pause(v.Waits)
	for _, line := range t.lines(time.Now(), d.terminal) {
		fmt.Fprintf(d.out, "  %s\n", line)
	}
	return nil
}
