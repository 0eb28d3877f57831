package sprite

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newTaskCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "task", Aliases: []string{"tasks"}, Short: "Keep a sprite awake while no one is attached to it",
		Long: `Keep a sprite awake while no one is attached to it. The processes of an idle sprite are frozen until it is used again. A task
keeps the sprite awake until the task ends, after at most an hour; adding the task again renews it. Programs in a sprite can
add tasks, too, through /.sprite/api.sock.
` + cli.ExitCodes,
		Example: "  lattice sprite task add box nightly-build --for 30m\n  lattice sprite task ls box\n  lattice sprite task rm box nightly-build"})
	var length time.Duration
	add := connect.MarkLasting(connect.NewSpriteCmd(env, "add NAME TASK", "Add a task that keeps a sprite awake, or renew it", "  lattice sprite task add box nightly-build --for 30m", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
		if length <= 0 {
			return cli.UsageErrorf("--for must be greater than 0")
		}
		t, err := c.Tasks().KeepAwake(ctx, list[0], list[1], length)
		if err != nil || !env.JSON {
			return err
		}
		return env.PrintJSON(t)
	}))
	add.Flags().DurationVar(&length, "for", time.Hour, "how long the task lasts, at most an hour")
	cmd.AddCommand(
		connect.NewSpriteCmd(env, "ls NAME", "List the tasks that keep a sprite awake", "  lattice sprite task ls box --json", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
			all, err := c.Tasks().List(ctx, list[0])
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, all, "TASK\tLASTS", func(t sprites.Task) []any {
				return []any{t.Name, t.Expire}
			})
		}),
		add,
		connect.NewSpriteCmd(env, "rm NAME TASK", "End a task early", "  lattice sprite task rm box nightly-build", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
			return c.Tasks().End(ctx, list[0], list[1])
		}))
	complete.SpriteCommands(env, cmd)
	return cmd
}
