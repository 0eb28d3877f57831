package service

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newCreateCmd(env *setup.Env) *cobra.Command {
	var s sprites.Service
	var vars []string
	var follow time.Duration
	cmd := &cobra.Command{
		Use: "create NAME SERVICE -- CMD…", Short: "Define or change a service, and start it",
		Long: `Define or change a service, and start it. The command shows the service's output of the first seconds. If the service ends
within them, the exit code is 1; it is restarted nevertheless, until lattice sprite service stop.
` + cli.ExitCodes,
		Example: "  lattice sprite service create box db -- postgres -D /home/sprite/data\n  lattice sprite service create box web --needs db --http-port 3000 -- npm start",
		Args:    cli.Args(cobra.MinimumNArgs(3)),
		RunE: func(c *cobra.Command, list []string) error {
			s.Name, s.Cmd, s.Args = list[1], list[2], list[3:]
			s.Env = map[string]string{}
			for _, kv := range vars {
				key, value, ok := strings.Cut(kv, "=")
				if !ok || key == "" {
					return cli.UsageErrorf("--env must be KEY=VALUE, not %q", kv)
				}
				s.Env[key] = value
			}
			return connect.WithHost(c.Context(), env, func(ctx context.Context, client *sprites.Client, outlived bool) error {
				w := watcher{console: env.Console, service: s.Name}
				err := w.explainEnd(client.Services().Put(ctx, list[0], s, w.newCall(follow)))
				if err == nil && !outlived {
					connect.WarnOfEnding(env.Console)
				}
				return setup.ExplainSprite(err)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.HTTPPort, "http-port", 0, "`PORT` on which the service serves the sprite's URL; only one service of a sprite can have one")
	f.StringSliceVar(&s.Needs, "needs", nil, "`SERVICES` that must run before it, separated by commas")
	f.StringArrayVar(&vars, "env", nil, "set `KEY=VALUE` for it, on top of the sprite's own variables")
	f.StringVar(&s.Dir, "dir", "", "working directory in the sprite (default /home/sprite)")
	addFollowFlag(cmd, &follow)
	return cmd
}
