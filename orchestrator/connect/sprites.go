package connect

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// NewSpriteCmd makes a command that speaks to the sprite host.
func NewSpriteCmd(env *setup.Env, use, short, example string, check cobra.PositionalArgs, do func(context.Context, *sprites.Client, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n" + cli.ExitCodes, Example: example, Args: cli.Args(check),
		RunE: func(c *cobra.Command, list []string) error {
			return WithHost(c.Context(), env, func(ctx context.Context, client *sprites.Client, outlived bool) error {
				err := do(ctx, client, list)
				if _, lasts := c.Annotations[lasting]; lasts && err == nil && !outlived {
					WarnOfEnding(env.Console)
				}
				return setup.ExplainSprite(err)
			})
		},
	}
	return cmd
}

// lasting marks commands of NewSpriteCmd whose effect ends with the host.
const lasting = "lasting"

func MarkLasting(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{lasting: ""}
	return cmd
}

// WarnOfEnding warns that the effect of the command ends with this process, which is the host.
func WarnOfEnding(console *cli.Console) {
	fmt.Fprintln(console.Err, "lattice: no leader is running: processes, services and records of sprites end with this command\n  try: keep lattice serve running in another terminal")
}

// WithSprites calls do with the client of the remote host, or of the leader's embedded host. It adds explanations to the host's errors.
func WithSprites(ctx context.Context, env *setup.Env, do func(context.Context, *sprites.Client) error) error {
	return WithHost(ctx, env, func(ctx context.Context, c *sprites.Client, _ bool) error { return setup.ExplainSprite(do(ctx, c)) })
}

// WithHost is like WithSprites, but do also learns whether the host outlives this process, and errors are returned unchanged.
func WithHost(ctx context.Context, env *setup.Env, do func(ctx context.Context, c *sprites.Client, outlived bool) error) error {
	if client := env.RemoteSprites(); client != nil {
		return do(ctx, client, true)
	}
	c, err := Dial(ctx, env, Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Warn(ctx); err != nil {
		return err
	}
	hc := api.HTTPClient(c.Socket)
	defer hc.CloseIdleConnections()
	return do(ctx, sprites.New(api.Base, "", hc), c.Leading == nil)
}
