package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// travelOptions are the flags of the commands that have a run go on from its past.
type travelOptions struct {
	leaderOptions
	agentEnv []string
}

func (o *travelOptions) addFlags(cmd *cobra.Command, d *deps) {
	o.addDetachFlag(cmd)
	o.addWaitFlag(cmd)
	cmd.Flags().StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent (those of the run's start are taken anyway)")
	cmd.ValidArgsFunction = completeRuns(d)
}

func newRewindCmd(d *deps) *cobra.Command {
	var o travelOptions
	var to string
	var across bool
	cmd := &cobra.Command{
		Use:   "rewind [RUN] --to NODE",
		Short: "Take a run back to where a node began, with its files, and go on from there",
		Long: `Take a run back to where a node began: its variables are again what they were, the sprite's files are put back to the
checkpoint of that moment, and the run goes on from there. NODE#2 is the second time that the node began; NODE alone is
the last. Without --to the moments are listed, and for those that cannot be gone back to the reason. Their files are at a
checkpoint, or "unchanged": in the sprite, as the run left them and with whatever a person wrote there since.

The run keeps what it was started with, but asks the models that the settings name now.

Nothing is deleted: the journal keeps what the run did and records that it went back; events since are superseded. What was
done outside of the sprite (a push, a pull request) is not undone, so going back behind it is refused (7) unless
--across-effects says that this is meant. Then what stays is listed, and a run that pushed to its own branch lattice/RUN
pushes to lattice/RUN-2 from now on: nothing that was pushed is ever replaced. Of a branch that the flow names itself the
second push is refused (not_fast_forward) until somebody deletes or merges it; lattice rewind --to the push tries again.
` + exitCodes,
		Example: "  lattice rewind run_0123\n  lattice rewind run_0123 --to edit\n  lattice rewind run_0123 --to edit#2 --across-effects",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			ctx := c.Context()
			conn, err := connect(ctx, d, o.leaderOptions)
			if err != nil {
				return err
			}
			defer conn.close()
			before, err := conn.Run(ctx, optional(list))
			if err != nil {
				return err
			}
			if to == "" {
				return printMoments(ctx, d, conn, before.RunID)
			}
			values, err := d.requiredValues(before, o.agentEnv...)
			if err != nil {
				return err
			}
			view, err := conn.Rewind(ctx, before.RunID, api.RewindRequest{
				To: to, Epoch: before.Epoch, AcrossEffects: across, By: d.user, Detach: o.detach, Models: d.modelSettings(), Values: values,
			})
			if err != nil {
				return err
			}
			for _, line := range view.Notice {
				fmt.Fprintln(d.err, clean(line))
			}
			if o.detach {
				return conn.detached(ctx, view, values)
			}
			return follow(ctx, d, conn, view, before.LastSeq)
		},
	}
	o.addFlags(cmd, d)
	cmd.Flags().StringVar(&to, "to", "", "the `NODE` to go back to, or NODE#N for its N-th time")
	cmd.Flags().BoolVar(&across, "across-effects", false, "also go back behind what was done outside of the sprite")
	_ = cmd.RegisterFlagCompletionFunc("to", completeMoments(d))
	return cmd
}

func newForkCmd(d *deps) *cobra.Command {
	var o travelOptions
	var at string
	var sets []string
	var n int
	cmd := &cobra.Command{
		Use:   "fork [RUN] --at NODE",
		Short: "Start runs that go on from a moment of another run, each in a copy of its sprite",
		Long: `Start runs that go on from where a node of another run began, each in a sprite of its own: a copy of the files of that
moment. The other run is not touched. They have what it was started with, but ask the models that the settings name now. --set writes variables first: x=text or x:=json for $vars.x, or a whole path such as
$vars.a.b or $tmp.c. Actions that the copies ask for are decided anew. What questions to models took up to there counts in
each copy, too.

Hosts whose sprites cannot be copied refuse with 8.
` + exitCodes,
		Example: "  lattice fork run_0123 --at edit\n  lattice fork run_0123 --at edit --set 'model=large' -n 3 --detach",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if at == "" {
				return usageError{errors.New("--at names the node to go on from; lattice rewind lists them")}
			}
			req := api.ForkRequest{At: at, N: n, Detach: o.detach}
			var err error
			if req.Set, err = assignments(sets); err != nil {
				return err
			}
			return runFork(c.Context(), d, o, optional(list), req)
		},
	}
	o.addFlags(cmd, d)
	cmd.Flags().StringVar(&at, "at", "", "the `NODE` to go on from, or NODE#N for its N-th time")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "write a variable first: `x=text` or x:=json")
	cmd.Flags().IntVarP(&n, "number", "n", 1, "how many copies")
	_ = cmd.RegisterFlagCompletionFunc("at", completeMoments(d))
	return cmd
}

func runFork(ctx context.Context, d *deps, o travelOptions, run string, req api.ForkRequest) error {
	conn, err := connect(ctx, d, o.leaderOptions)
	if err != nil {
		return err
	}
	defer conn.close()
	before, err := conn.Run(ctx, run)
	if err != nil {
		return err
	}
	req.Models = d.modelSettings()
	if req.Values, err = d.requiredValues(before, o.agentEnv...); err != nil {
		return err
	}
	views, err := conn.Fork(ctx, before.RunID, req)
	if err != nil {
		return err
	}
	var first error
	for _, view := range views {
		fmt.Fprintf(d.err, "%s goes on from %s\n", view.RunID, view.ForkedFrom)
	}
	for _, view := range views {
		if o.detach {
			err = conn.detached(ctx, view, req.Values)
		} else {
			err = follow(ctx, d, conn, view, 0)
		}
		if ctx.Err() != nil {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// assignments reads the values of --set.
func assignments(sets []string) ([]lattice.Assignment, error) {
	out := make([]lattice.Assignment, len(sets))
	for i, pair := range sets {
		name, value, err := parsePair(pair)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, "$") {
			name = "$vars." + name
		}
		if slices.ContainsFunc(out[:i], func(a lattice.Assignment) bool { return a.Path == name }) {
			return nil, fault.BadInput("key_duplicate", "%s is set twice", name).WithHint("keep one of the two --set")
		}
		out[i] = lattice.Assignment{Path: name, Value: value}
	}
	return out, nil
}

func printMoments(ctx context.Context, d *deps, c *conn, run string) error {
	moments, err := c.Moments(ctx, run)
	if err != nil {
		return err
	}
	if d.json {
		return d.printJSON(moments)
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MOMENT\tAT\tFILES\tNOTE")
	for _, m := range moments {
		files := m.Files
		if m.Checkpoint != "" {
			files = m.Checkpoint
		}
		note := m.Why
		if note == "" && len(m.Effects) > 0 {
			note = "done outside since: " + strings.Join(m.Effects, ", ")
		}
		fmt.Fprintf(w, "%s#%d\t%s\t%s\t%s\n", m.Node, m.Visit, m.At.Local().Format(time.DateTime), files, clean(note))
	}
	return w.Flush()
}

func newDiffCmd(d *deps) *cobra.Command {
	var patch bool
	cmd := d.query("diff [RUN [A [B]]]", "Show what changed in variables and files between two moments of a run",
		"  lattice diff run_0123\n  lattice diff run_0123 edit test --json\n  lattice diff run_0123 edit --patch", cobra.MaximumNArgs(3),
		func(ctx context.Context, c *conn, list []string) error {
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
			case d.json && patch:
				return d.printJSON(struct {
					api.Comparison
					api.Patch
				}{diff, p})
			case d.json:
				return d.printJSON(diff)
			case patch:
				return d.printPatch(p)
			}
			return d.printComparison(diff)
		})
	cmd.Flags().BoolVarP(&patch, "patch", "p", false, "print the content of the files that differ, without those of git itself, and no variables; with --json as the member patch")
	cmd.Long = "Show what changed in a run's variables and in its sprite's files between two moments: NODE is where the node began last,\nNODE#N where it did the N-th time. A is the run's beginning, B the present, unless given.\n" + exitCodes
	return cmd
}

func (d *deps) printComparison(diff api.Comparison) error {
	for _, v := range diff.Vars {
		switch {
		case v.From == nil:
			fmt.Fprintf(d.out, "+ %s = %s\n", clean(v.Path), clean(short(v.To)))
		case v.To == nil:
			fmt.Fprintf(d.out, "- %s = %s\n", clean(v.Path), clean(short(v.From)))
		default:
			fmt.Fprintf(d.out, "~ %s = %s -> %s\n", clean(v.Path), clean(short(v.From)), clean(short(v.To)))
		}
	}
	marks := map[string]string{"added": "+", "deleted": "-"}
	for _, f := range diff.Files {
		mark, ok := marks[f.Change]
		if !ok {
			mark = "~"
		}
		fmt.Fprintf(d.out, "%s %s\n", mark, clean(f.Path))
	}
	if diff.Note != "" {
		fmt.Fprintln(d.err, clean(diff.Note))
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
