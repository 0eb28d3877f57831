package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newSpriteLsCmd(d *deps) *cobra.Command {
	cmd := d.spriteCmd("ls", "List sprites, with the runs that they were made for", "  lattice sprite ls\n  lattice sprite ls --json", 0,
		func(ctx context.Context, c *sprites.Client, _ []string) error {
			all, err := c.List(ctx, "")
			if err != nil {
				return err
			}
			if d.json {
				return d.printJSON(all)
			}
			runs := map[string]api.RunView{}
			for _, r := range d.peekRuns(ctx) {
				runs[r.RunID] = r
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATUS\tISOLATION\tAGE\tRUN\tSTATE")
			for _, s := range all {
				run := ownerOf(s)
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Status, s.Isolation, age(s.CreatedAt), clean(run), runs[run].Status)
			}
			return w.Flush()
		})
	return cmd
}

// ownerOf is the run that a sprite was made for, "" when a person made it.
func ownerOf(s sprites.Sprite) string {
	for _, label := range s.Labels {
		if run, ok := strings.CutPrefix(label, leader.OwnerLabel); ok {
			return run
		}
	}
	return ""
}
