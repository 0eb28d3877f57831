package run

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newEventsCmd(env *setup.Env) *cobra.Command {
	var o eventsOptions
	cmd := connect.NewQueryCmd(env, "events [RUN]", "Print a run's events as they were recorded", "  lattice events run_0123 --json\n  lattice events --work-item 42", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			runs, err := o.runs(ctx, c, cli.Optional(list))
			if err != nil {
				return err
			}
			for _, run := range runs {
				if err := printEvents(ctx, env.Console, c, o, run); err != nil {
					return err
				}
			}
			return nil
		})
	cmd.Long = "Print a run's events in the order in which they were recorded. Events of a call that was cut off and repeated are\nsuperseded and hidden; --all shows them too. Flags and problems say what is wrong with an event; lattice ignores such events.\n" + cli.ExitCodes
	cmd.Flags().StringVar(&o.workItem, "work-item", "", "print the events of all runs about this `ID`, oldest run first")
	cmd.Flags().BoolVar(&o.journal, "journal", false, "print the whole log as JSON lines: facts and events, with their sequence numbers")
	cmd.Flags().BoolVar(&o.all, "all", false, "also print events that were superseded by a restore")
	return cmd
}

type eventsOptions struct {
	workItem     string
	all, journal bool
}

// runs are the ids of the runs whose events are wanted.
func (o eventsOptions) runs(ctx context.Context, c *connect.Conn, id string) ([]string, error) {
	if o.workItem == "" {
		v, err := c.Run(ctx, id)
		return []string{v.RunID}, err
	}
	if id != "" {
		return nil, cli.UsageErrorf("name a run or --work-item, not both")
	}
	all, err := c.Runs(ctx, api.RunList{WorkItem: o.workItem})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, v := range slices.Backward(all) {
		ids = append(ids, v.RunID)
	}
	if len(ids) == 0 {
		return nil, fault.NotFound("work_item_not_found", "no run is about %s", o.workItem).WithHint("lattice runs")
	}
	return ids, nil
}

func printEvents(ctx context.Context, console *cli.Console, c *connect.Conn, o eventsOptions, run string) error {
	var entries []lattice.Entry
	if err := c.Entries(ctx, run, 0, func(e lattice.Entry) error { entries = append(entries, e); return nil }); err != nil {
		return err
	}
	gone := lattice.Superseded(entries)
	for _, e := range entries {
		var err error
		switch {
		case o.journal:
			err = console.PrintJSON(e)
		case e.Kind == lattice.EntryEvent && (o.all || !gone[e.Seq]):
			err = printEvent(console, e, gone[e.Seq])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func printEvent(console *cli.Console, e lattice.Entry, superseded bool) error {
	return console.PrintResult(eventLine{Seq: e.Seq, Sprite: e.Sprite, CallID: e.CallID, Event: e.Body, Flags: e.Flags, Problems: e.Problems, Superseded: superseded},
		"%6d  %-16s %s", e.Seq, e.Type, timeline.DescribeEvent(e))
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
