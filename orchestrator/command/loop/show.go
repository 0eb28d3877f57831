package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop/iterations"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// line is an event of a transcript.
type line struct {
	At   time.Time `json:"at"`
	Type string    `json:"type"`
	Text string    `json:"text"`
}

// shown is an iteration with its parts.
type shown struct {
	iterations.Iteration
	Transcript []line `json:"transcript"`
	difference.Patch
}

func newShowCmd(env *setup.Env) *cobra.Command {
	var n int
	cmd := connect.NewQueryCmd(env, "show [LOOP]", "Show an iteration of a loop: transcript, test report, cost, checkpoint and change",
		"  lattice loop show\n  lattice loop show feature-x --iteration 3 --json", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			v, err := findLoop(ctx, c, cli.Optional(list), false, isLoop)
			if err != nil {
				return err
			}
			view, err := inspectLoop(ctx, c, v)
			if err != nil {
				return err
			}
			moments, err := c.Moments(ctx, v.RunID)
			if err != nil {
				return err
			}
			it, err := iterations.Find(view, moments, n)
			if err != nil {
				return err
			}
			return showIteration(ctx, env.Console, c, it)
		})
	cmd.Long = `Show an iteration of a loop that has ended, the last one by default: the events of its steps, the report of the verification, the cost,
the checkpoint with the files from before the agent's call, and the files that differ from then to the next iteration.
` + exitCodes
	cmd.Flags().IntVar(&n, "iteration", 0, "show iteration `N` instead of the last one")
	cmd.ValidArgsFunction = completeLoops(env, isLoop)
	return cmd
}

func showIteration(ctx context.Context, console *cli.Console, c *connect.Conn, it iterations.Iteration) error {
	transcript, err := readTranscript(ctx, c, it)
	if err != nil {
		return err
	}
	var patch difference.Patch
	if it.From != "" {
		if patch, err = c.ComparedFiles(ctx, it.RunID, it.From, it.To); err != nil {
			patch = difference.Patch{Note: "the files cannot be compared: " + err.Error()}
		}
	}
	if console.JSON {
		return console.PrintJSON(shown{it, transcript, patch})
	}
	out := cli.Sanitize(console.Out)
	fmt.Fprintf(out, "iteration %d  %s\n", it.Iteration, it.Decision)
	for _, row := range [][2]string{
		{"reason", it.Reason}, {"agent", statusOf(it.Entry)}, {"summary", it.Summary}, {"question", it.Question}, {"commit", it.Commit},
		{"statement", it.Statement}, {"cost", formatCost(it.CostUSD)}, {"time", (time.Duration(it.DurationMS) * time.Millisecond).String()},
		{"checkpoint", it.Checkpoint}, {"verified", verdictOf(it.Entry)},
	} {
		if row[1] != "" {
			fmt.Fprintf(out, "  %-11s %s\n", row[0], clipLine(row[1], 2000))
		}
	}
	if it.Report != nil {
		for _, r := range it.Report.Commands {
			fmt.Fprintf(out, "    %s: %s\n", strings.Join(r.Argv, " "), r.Status)
			for _, f := range r.Failures {
				fmt.Fprintf(out, "      %s: %s\n", f.ID, clipLine(f.Message, 500))
			}
		}
	}
	fmt.Fprintln(out, "transcript")
	for _, l := range transcript {
		fmt.Fprintf(out, "  %s  %s  %s\n", l.At.Local().Format(time.TimeOnly), l.Type, l.Text)
	}
	if it.From == "" {
		return nil
	}
	return timeline.PrintPatch(console, patch)
}

// errBehind ends the reading of a transcript.
var errBehind = errors.New("behind the iteration")

// readTranscript returns the events of an iteration.
func readTranscript(ctx context.Context, c *connect.Conn, it iterations.Iteration) ([]line, error) {
	all := []line{}
	err := c.Entries(ctx, it.RunID, it.After, func(e lattice.Entry) error {
		if it.Before > 0 && e.Seq >= it.Before {
			return errBehind
		}
		if e.Kind == lattice.EntryEvent {
			all = append(all, line{e.At, e.Type, timeline.DescribeEvent(e)})
		}
		return nil
	})
	if errors.Is(err, errBehind) {
		err = nil
	}
	return all, err
}
