package service

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// forEver is the duration of a request for a log that is followed until Ctrl-C.
const forEver = 24 * time.Hour

func newLogsCmd(env *setup.Env) *cobra.Command {
	var lines int
	var follow bool
	cmd := connect.NewSpriteCmd(env, "logs NAME SERVICE", "Show the log of a service", "  lattice sprite service logs box web -n 20 -f", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
		w := watcher{console: env.Console, service: list[1], ends: true}
		if !follow {
			return c.Services().Logs(ctx, list[0], list[1], lines, w.newCall(0))
		}
		for {
			err := c.Services().Logs(ctx, list[0], list[1], lines, w.newCall(forEver))
			if ctx.Err() != nil {
				return nil // as asked
			}
			if err != nil {
				return err
			}
			lines = 0
		}
	})
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many of the last lines to show")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "then follow the log, until Ctrl-C")
	return cmd
}
