package travel

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newTurnsCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewQueryCmd(env, "turns [RUN]", "List the turns of a run's agents, to which it can be taken back",
		"  lattice turns run_0123\n  lattice rewind run_0123 --turn 2\n  lattice fork run_0123 --turn 2\n  lattice diff run_0123 @1 @2", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			turns, err := c.Turns(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, turns, "TURN\tSTEP\tAT\tFILES\tAGENT\tTOOL\tNOTE", func(t api.Turn) []any {
				return []any{t.Turn, fmt.Sprintf("%s#%d", t.Node, t.Visit), t.At.Local().Format(time.DateTime), t.Checkpoint, t.Agent, t.Tool, momentNote(t.Moment)}
			})
		})
	cmd.Long = `List the turns of a run's agents. A turn is one answer of the model with the results of the tools that the agent
used. The checkpoint of a turn holds all files of the sprite, those that a shell wrote and untracked ones included, and the
agent's own session. So rewind --turn and fork --turn restore files and conversation together; diff takes @N for turn N.

Turns are known of claude, codex and agents that speak the Agent Client Protocol. An agent in an iteration of a LOOP, MAP,
PARALLEL or SUBGRAPH has turns, too: its step is named with the path of the iteration, such as rounds[2]/edit#1, and a run that
goes back there repeats the later iterations. A run cannot go back to turns of an agent that worked at the same time as other nodes or in
a copy of the sprite; the list says so.

A turn has no boundary if the agent went on or ended before it could be stopped, or did not write its session: the list says so.
A sprite keeps the checkpoints of its newest turns: 64 of them, or keep_turns under [run] in the settings. The list says which
are gone. A run that cannot go back to a turn names the nearest ones to which it can.
` + cli.ExitCodes
	return cmd
}

// addTurnFlag adds --turn in the place of the flag that names a node. spec returns the moment that either of them names.
func addTurnFlag(cmd *cobra.Command, env *setup.Env, other string, node *string) (spec func() (string, error)) {
	var turn int
	cmd.Flags().IntVar(&turn, "turn", 0, "the `TURN` of an agent to continue after; lattice turns lists them")
	_ = cmd.RegisterFlagCompletionFunc("turn", complete.Turns(env))
	return func() (string, error) {
		switch {
		case !cmd.Flags().Changed("turn"):
			return *node, nil
		case *node != "":
			return "", cli.UsageErrorf("--%s and --turn name different moments; give one of them", other)
		case turn < 1:
			return "", cli.UsageErrorf("--turn %d: turns are counted from 1; lattice turns lists them", turn)
		}
		return fmt.Sprintf("@%d", turn), nil
	}
}
