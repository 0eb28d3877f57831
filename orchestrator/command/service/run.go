package service

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newRunCmd(env *setup.Env, verb, short string, do func(sprites.Services, context.Context, string, string, sprites.ServiceCall) error) *cobra.Command {
	var follow time.Duration
	cmd := connect.MarkLasting(connect.NewSpriteCmd(env, verb+" NAME SERVICE", short, "  lattice sprite service "+verb+" box web", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
		w := watcher{console: env.Console, service: list[1]}
		return w.explainEnd(do(c.Services(), ctx, list[0], list[1], w.newCall(follow)))
	}))
	addFollowFlag(cmd, &follow)
	return cmd
}

func newStopCmd(env *setup.Env) *cobra.Command {
	var timeout time.Duration
	cmd := connect.NewSpriteCmd(env, "stop NAME SERVICE", "Stop a service until it is started again", "  lattice sprite service stop box web --timeout 30s", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
		w := watcher{console: env.Console, service: list[1], ends: true}
		return w.explainEnd(c.Services().Stop(ctx, list[0], list[1], timeout, w.newCall(0)))
	})
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long the service may take to end before it is killed")
	return cmd
}

func newSignalCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "signal NAME SERVICE SIGNAL", "Send a signal to a service and all processes of its group", "  lattice sprite service signal box web HUP", cobra.ExactArgs(3), func(ctx context.Context, c *sprites.Client, list []string) error {
		return c.Services().Signal(ctx, list[0], list[1], list[2])
	})
}
