package run

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newLogsCmd(env *setup.Env) *cobra.Command {
	var keep bool
	cmd := connect.NewQueryCmd(env, "logs [RUN]", "Print the output of a run's skills, without their events", "  lattice logs run_0123\n  lattice logs -f", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			v, err := c.Run(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			offset, err := printLog(ctx, env.Console, c, v.RunID, 0)
			if err != nil || !keep {
				return err
			}
			after := v.LastSeq
			for {
				err := c.Watch(ctx, v.RunID, after, func(l api.WatchLine) error {
					if l.Entry != nil {
						after = l.Entry.Seq
					}
					if l.View == nil {
						return nil
					}
					offset, err = printLog(ctx, env.Console, c, v.RunID, offset)
					return err
				})
				if !errors.Is(err, api.ErrGone) || ctx.Err() != nil {
					return err
				}
				if err := c.Establish(ctx); err != nil { // the next leader continues the run
					return err
				}
			}
		})
	cmd.Flags().BoolVarP(&keep, "follow", "f", false, "keep printing until the run ends or pauses")
	return cmd
}

// printLog prints a run's log from offset on and returns its end.
func printLog(ctx context.Context, console *cli.Console, c *connect.Conn, run string, offset int64) (int64, error) {
	body, err := c.Log(ctx, run, offset)
	if err != nil {
		return offset, err
	}
	defer body.Close()
	n, err := io.Copy(cli.Sanitize(console.Out), body)
	return offset + n, err
}
