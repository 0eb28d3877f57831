package sprite

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newDiffCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewSpriteCmd(env, "diff NAME [A [B]]", "Show which files differ between two checkpoints of a sprite", "  lattice sprite diff box\n  lattice sprite diff box v1\n  lattice sprite diff box v1 v3 --json", cobra.RangeArgs(1, 3),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			name, from, to := list[0], "", ""
			if len(list) > 1 {
				from = list[1]
			}
			if len(list) > 2 {
				to = list[2]
			}
			stop := env.ShowWait("compare")
			changes, err := c.Diff(ctx, name, from, to)
			stop()
			if err != nil {
				err = checkpointProblem(ctx, c, name, from, err)
				return checkpointProblem(ctx, c, name, to, err)
			}
			return printChanges(env.Console, changes)
		})
	cmd.Long = `Show which files differ between the checkpoints A and B of a sprite. By default, B is the present state (Current), and A the
checkpoint that the present state is based on. All files of the sprite are compared, not only /workspace: content, type,
permissions and owner, but not times.

Each line shows the change (added, deleted, modified, or type, if for example a file became a folder), the type, the size
before and after, and the path. --json prints an array of {"path","change","type","size","mode","old_type","old_size",
"old_mode"}; added entries have no old members, and deleted ones have only those.
` + cli.ExitCodes
	cmd.ValidArgsFunction = func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(list) == 2 {
			list = list[:1] // B is a checkpoint, too
		}
		return complete.Checkpoints(env)(c, list, word)
	}
	return cmd
}

func printChanges(console *cli.Console, changes []sprites.Change) error {
	if console.JSON {
		return console.PrintJSON(append([]sprites.Change{}, changes...))
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	for _, c := range changes {
		what, size := c.Type, ""
		switch {
		case c.Change == "deleted":
			what = c.OldType
			size = changedSize(c.OldType, c.OldSize)
		case c.OldType == "" || c.OldType == c.Type && c.OldSize == c.Size:
			size = changedSize(c.Type, c.Size)
		default:
			size = changedSize(c.OldType, c.OldSize) + "→" + changedSize(c.Type, c.Size)
		}
		if c.OldType != "" && c.Type != "" && c.OldType != c.Type {
			what = c.OldType + "→" + c.Type
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Change, what, size, cli.Clean(c.Path))
	}
	return w.Flush()
}

// changedSize returns the size of a file, "" of anything else.
func changedSize(kind string, size int64) string {
	if kind != "file" {
		return "-"
	}
	return cli.FormatBytes(size)
}
