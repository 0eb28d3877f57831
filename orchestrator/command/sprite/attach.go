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
		Use: "attach NAME [SESSION]", Short: "Join a command that runs in a sprite; its exit code is this one's",
		Long: `Join a command that runs in a sprite, the only one when none is named: what it said recently is shown, then what it says,
and what is typed here goes to it. Others may have joined it, too. It is what lattice sprite exec NAME --attach SESSION does.

Exit codes: the command's own; 2 bad usage, or several commands run; 3 no such sprite or session, 4 not allowed, 5 the
connection was lost and the command's end is not known, 130 given up.`,
		Example: "  lattice sprite attach box\n  lattice sprite attach box 17", Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, list []string) error {
			if len(list) == 2 {
				o.attach = list[1]
			} else if err := connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) (err error) {
				o.attach, err = onlySession(ctx, client, list[0])
				return setup.ExplainSprite(err)
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
		return "", cli.UsageErrorf("%d commands run in %s: name one of those that lattice sprite sessions %s lists", len(all), name, name)
	}
	return all[0].ID, nil
}
