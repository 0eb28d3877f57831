package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newRunsCmd(d *deps) *cobra.Command {
	var which api.RunList
	cmd := d.query("runs", "List runs, newest first", "  lattice runs --json\n  lattice runs --limit 20 --before run_0123", cobra.NoArgs,
		func(ctx context.Context, c *conn, _ []string) error {
			if which.Limit < 0 {
				return usageError{errors.New("--limit is a number of runs; 0 lists all")}
			}
			asked := which
			if which.Limit > 0 {
				asked.Limit++ // one more tells whether there are more
			}
			runs, err := c.Runs(ctx, asked)
			if err != nil {
				return err
			}
			if which.Limit > 0 && len(runs) > which.Limit {
				runs = runs[:which.Limit]
				defer fmt.Fprintf(d.err, "older ones: lattice runs --before %s, or --limit 0 for all\n", runs[len(runs)-1].RunID)
			}
			if d.json {
				return d.printJSON(runs)
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RUN\tSTATUS\tFLOW\tAT\tAGE\tSPRITE")
			for _, r := range runs {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.RunID, statusText(r), r.Flow, r.Node, age(r.CreatedAt), r.Sprite)
			}
			return w.Flush()
		})
	cmd.Flags().IntVarP(&which.Limit, "limit", "n", 100, "how many runs are listed; 0 is all")
	cmd.Flags().StringVar(&which.Before, "before", "", "list runs older than this one")
	cmd.Flags().BoolVar(&which.Open, "open", false, "only runs that have not ended")
	return cmd
}

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

func newEventsCmd(d *deps) *cobra.Command {
	var o eventsOptions
	cmd := d.query("events [RUN]", "Print a run's events as they were recorded", "  lattice events run_0123 --json\n  lattice events --work-item 42", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *conn, list []string) error {
			runs, err := o.runs(ctx, c, optional(list))
			if err != nil {
				return err
			}
			for _, run := range runs {
				if err := printEvents(ctx, d, c, o, run); err != nil {
					return err
				}
			}
			return nil
		})
	cmd.Long = "Print a run's events in the order in which they were recorded. Events of a call that was cut off and done again are\nsuperseded; --all shows them too. Flags and problems say what is wrong with an event; nothing acts on those.\n" + exitCodes
	cmd.Flags().StringVar(&o.workItem, "work-item", "", "events of all runs for this `ID`, oldest run first")
	cmd.Flags().BoolVar(&o.journal, "journal", false, "the whole log as JSON lines: facts and events, with their sequence numbers")
	cmd.Flags().BoolVar(&o.all, "all", false, "also events that were superseded by a restore")
	return cmd
}

type eventsOptions struct {
	workItem     string
	all, journal bool
}

// runs are the ids of the runs whose events are wanted.
func (o eventsOptions) runs(ctx context.Context, c *conn, id string) ([]string, error) {
	if o.workItem == "" {
		v, err := c.Run(ctx, id)
		return []string{v.RunID}, err
	}
	if id != "" {
		return nil, usageError{errors.New("name a run or --work-item, not both")}
	}
	all, err := c.Runs(ctx, api.RunList{})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, v := range slices.Backward(all) {
		if v.WorkItem == o.workItem {
			ids = append(ids, v.RunID)
		}
	}
	if len(ids) == 0 {
		return nil, fault.NotFound("work_item_not_found", "no run is about %s", o.workItem).WithHint("lattice runs")
	}
	return ids, nil
}

func printEvents(ctx context.Context, d *deps, c *conn, o eventsOptions, run string) error {
	var entries []lattice.Entry
	if err := c.Entries(ctx, run, 0, func(e lattice.Entry) error { entries = append(entries, e); return nil }); err != nil {
		return err
	}
	gone := superseded(entries)
	for _, e := range entries {
		var err error
		switch {
		case o.journal:
			err = d.printJSON(e)
		case e.Kind == lattice.EntryEvent && (o.all || !gone[e.Seq]):
			err = d.printEvent(e, gone[e.Seq])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *deps) printEvent(e lattice.Entry, superseded bool) error {
	if d.json {
		return d.printJSON(eventLine{Seq: e.Seq, Sprite: e.Sprite, CallID: e.CallID, Event: e.Body, Flags: e.Flags, Problems: e.Problems, Superseded: superseded})
	}
	_, err := fmt.Fprintf(d.out, "%6d  %-16s %s\n", e.Seq, e.Type, eventText(e))
	return err
}

// eventLine is one line of lattice events --json.
type eventLine struct {
	Seq        lattice.Seq        `json:"seq"`
	Sprite     string             `json:"sprite,omitempty"`
	CallID     string             `json:"call_id,omitempty"`
	Event      json.RawMessage    `json:"event"`
	Flags      []string           `json:"flags,omitempty"`
	Problems   []protocol.Problem `json:"problems,omitempty"`
	Superseded bool               `json:"superseded,omitempty"`
}

func newLogsCmd(d *deps) *cobra.Command {
	var keep bool
	cmd := d.query("logs [RUN]", "Print what a run's skills said beside events", "  lattice logs run_0123\n  lattice logs -f", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *conn, list []string) error {
			v, err := c.Run(ctx, optional(list))
			if err != nil {
				return err
			}
			offset, err := printLog(ctx, d, c, v.RunID, 0)
			if err != nil || !keep {
				return err
			}
			after := v.LastSeq
			for {
				err := c.Watch(ctx, v.RunID, after, func(l api.WatchLine) error {
					if l.Entry != nil {
						after = l.Entry.Seq
					}
					if l.View == nil {
						return nil
					}
					offset, err = printLog(ctx, d, c, v.RunID, offset)
					return err
				})
				if !errors.Is(err, api.ErrGone) || ctx.Err() != nil {
					return err
				}
				if err := c.establish(ctx); err != nil { // whoever follows the run has it go on
					return err
				}
			}
		})
	cmd.Flags().BoolVarP(&keep, "follow", "f", false, "go on until nobody drives the run")
	return cmd
}

// printLog prints a run's log from offset on and returns its end.
func printLog(ctx context.Context, d *deps, c *conn, run string, offset int64) (int64, error) {
	body, err := c.Log(ctx, run, offset)
	if err != nil {
		return offset, err
	}
	defer body.Close()
	n, err := io.Copy(sanitizer{d.out}, body)
	return offset + n, err
}

func newWaitingCmd(d *deps) *cobra.Command {
	return d.query("waiting", "List what waits for a person", "  lattice waiting --json", cobra.NoArgs,
		func(ctx context.Context, c *conn, _ []string) error {
			runs, err := c.Runs(ctx, api.RunList{Open: true})
			if err != nil {
				return err
			}
			actions, err := c.Actions(ctx, "*")
			if err != nil {
				return err
			}
			asked := map[string][]api.NotedAction{}
			for _, a := range actions {
				asked[a.RunID] = append(asked[a.RunID], a)
			}
			open := []runWithActions{}
			for _, r := range runs {
				if len(r.Waits) > 0 && !r.Status.Ended() || len(asked[r.RunID]) > 0 {
					open = append(open, runWithActions{r, asked[r.RunID]})
				}
			}
			if d.json {
				return d.printJSON(open)
			}
			if len(open) == 0 {
				fmt.Fprintln(d.out, "nothing waits")
			}
			for _, r := range open {
				if !r.Status.Ended() {
					for _, w := range r.Waits {
						describeWait(d.out, r.RunView, w)
					}
				}
				describeActions(d.out, r.Actions)
			}
			return nil
		})
}

// query makes a command that asks the leader and prints.
func (d *deps) query(use, short, example string, check cobra.PositionalArgs, do func(context.Context, *conn, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n" + exitCodes, Example: example, Args: args(check),
		RunE: func(c *cobra.Command, list []string) error {
			conn, err := connect(c.Context(), d, leaderOptions{})
			if err != nil {
				return err
			}
			defer conn.close()
			return do(c.Context(), conn, list)
		},
		ValidArgsFunction: completeRuns(d),
	}
	return cmd
}
