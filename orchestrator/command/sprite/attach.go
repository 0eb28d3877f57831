package sprite

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newAttachCmd(env *setup.Env) *cobra.Command {
	o := execOptions{tty: "false"} // the session's own is taken
	cmd := &cobra.Command{
		Use: "attach NAME [SESSION]", Short: "Attach to a command that runs in a sprite, and end with its exit code",
		Long: `Attach to a command that runs in a sprite, or to the only one if no session is named: show its recent output, then its
further output, and send it everything that you type. Several people can attach to the same command. It is the same as
lattice sprite exec NAME --attach SESSION.

Exit codes: that of the command; 2 bad usage, or several commands run; 3 no such sprite or session, 4 not allowed, 5 the
connection was lost before the command ended, 130 gave up waiting.`,
		Example: "  lattice sprite attach box\n  lattice sprite attach box 17", Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, list []string) error {
			if len(list) == 2 {
				o.attach = list[1]
			} else if err := connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) (err error) {
				o.attach, err = onlySession(ctx, client, list[0])
				return err
			}); err != nil {
				return err
			}
			return runExec(c.Context(), env, list[0], o)
		},
		ValidArgsFunction: completeSessions(env, 1),
	}
	o.addFlags(cmd)
	for _, flag := range []string{"dir", "env"} { // of new commands
		_ = cmd.Flags().MarkHidden(flag)
	}
	return cmd
}

// onlySession is the session of a sprite that has one.
func onlySession(ctx context.Context, c *sprites.Client, name string) (string, error) {
	all, err := c.Sessions(ctx, name)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", fault.NotFound("session_not_found", "no command runs in sprite %s", name).WithHint("lattice sprite exec %s -- CMD", name)
	case len(all) > 1:
		return "", cli.UsageErrorf("%d commands run in %s: name one; lattice sprite sessions %s lists them", len(all), name, name)
	}
	return all[0].ID, nil
}
