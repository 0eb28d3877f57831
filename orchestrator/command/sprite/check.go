package sprite

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newCheckCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewSpriteCmd(env, "check NAME", "Wake a sprite and check that commands can run in it", "  lattice sprite check box || lattice sprite restart box", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		stop := env.ShowWait("check")
		h, err := c.Check(ctx, list[0])
		stop()
		if err != nil {
			return err
		}
		err = env.PrintResult(h, "%s", strings.TrimSpace(cli.Clean(h.Status+" "+h.Reason)))
		if err == nil && h.Status != "healthy" {
			err = &cli.ExitError{Code: protocol.ExitFailed}
		}
		return err
	})
	cmd.Long = "Wake a sprite and check that commands can run in it. The exit code is 1 if they cannot.\n" + cli.ExitCodes
	return cmd
}
