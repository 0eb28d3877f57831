package sprite

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newTaskCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "task", Aliases: []string{"tasks"}, Short: "Keep a sprite awake while nobody is attached to it",
		Long: `Keep a sprite awake while nobody is attached to it. An idle sprite falls asleep: its processes stand still until it is used
again. A task keeps it awake until the task ends, after an hour at most; adding it again renews it. What runs in a sprite
keeps itself awake the same way, through /.sprite/api.sock.
` + cli.ExitCodes,
		Example: "  lattice sprite task add box nightly-build --for 30m\n  lattice sprite task ls box\n  lattice sprite task rm box nightly-build"})
	var length time.Duration
	add := connect.MarkLasting(connect.NewSpriteCmd(env, "add NAME TASK", "Keep a sprite awake by a task, or renew the task", "  lattice sprite task add box nightly-build --for 30m", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
		if length <= 0 {
			return cli.UsageErrorf("--for is a duration above 0")
		}
		t, err := c.Tasks().KeepAwake(ctx, list[0], list[1], length)
		if err != nil || !env.JSON {
			return err
		}
		return env.PrintJSON(t)
	}))
	add.Flags().DurationVar(&length, "for", time.Hour, "how long the task lasts, an hour at most")
	cmd.AddCommand(
		connect.NewSpriteCmd(env, "ls NAME", "List what keeps a sprite awake", "  lattice sprite task ls box --json", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
			all, err := c.Tasks().List(ctx, list[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(all)
			}
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TASK\tLASTS")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%s\n", cli.Clean(t.Name), cli.Clean(t.Expire))
			}
			return w.Flush()
		}),
		add,
		connect.NewSpriteCmd(env, "rm NAME TASK", "End a task before its time", "  lattice sprite task rm box nightly-build", 2, func(ctx context.Context, c *sprites.Client, list []string) error {
			return c.Tasks().End(ctx, list[0], list[1])
		}))
	complete.SpriteCommands(env, cmd)
	return cmd
}
