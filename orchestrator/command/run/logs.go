package run

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newLogsCmd(env *setup.Env) *cobra.Command {
	var keep bool
	var node string
	cmd := connect.NewQueryCmd(env, "logs [RUN]", "Print the output of a run's skills, without their events", "  lattice logs run_0123\n  lattice logs -f --node test_after", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			v, err := c.Run(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			l := logPrinter{env.Console, c, v.RunID, node, 0}
			if err := l.printRest(ctx); err != nil || !keep {
				return err
			}
			c.YieldLead()
			return l.followRun(ctx, v.LastSeq)
		})
	cmd.Long = `Print the output of a run's skills, without their events. --node prints only that of one node; that of a MAP, a LOOP or
a SUBGRAPH includes the nodes inside of it. -f goes on until the run ends or pauses, also while another lattice serve takes over.
` + cli.ExitCodes
	cmd.Flags().BoolVarP(&keep, "follow", "f", false, "keep printing until the run ends or pauses")
	cmd.Flags().StringVar(&node, "node", "", "print only the output of this `NODE`")
	_ = cmd.RegisterFlagCompletionFunc("node", complete.Nodes(env))
	return cmd
}

// logPrinter prints the log of a run, or of one of its nodes, each byte once.
type logPrinter struct {
	console *cli.Console
	conn    *connect.Conn
	run     string
	node    string // "" is all
	offset  int64
}

// printRest prints the log from the offset on.
func (l *logPrinter) printRest(ctx context.Context) error {
	body, err := l.conn.Log(ctx, l.run, l.node, l.offset)
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(cli.Sanitize(l.console.Out), body)
	l.offset += n
	return err
}

// followRun prints the log until the run ends or pauses. If the leader ends before, it waits for the next one.
func (l *logPrinter) followRun(ctx context.Context, after lattice.Seq) error {
	for {
		err := l.conn.Watch(ctx, l.run, after, func(line api.WatchLine) error {
			if line.Entry != nil {
				after = line.Entry.Seq
			}
			if line.View == nil {
				return nil
			}
			return l.printRest(ctx)
		})
		if !errors.Is(err, api.ErrGone) || ctx.Err() != nil {
			return err
		}
		if err := l.awaitDriver(ctx); err != nil {
			return err
		}
	}
}

// awaitDriver waits until the next leader drives the run, as one that starts does after a moment.
func (l *logPrinter) awaitDriver(ctx context.Context) error {
	if err := l.conn.Establish(ctx); err != nil {
		return err
	}
	for begun := time.Now(); l.conn.Leading == nil && time.Since(begun) < connect.RestartWait; {
		v, err := l.conn.Run(ctx, l.run)
		if err != nil || v.Driving || v.Status != lattice.Running && v.Status != lattice.Pending {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
