package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
)

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
