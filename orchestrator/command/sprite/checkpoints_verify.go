package sprite

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newCheckpointsVerifyCmd(env *setup.Env) *cobra.Command {
	cmd := connect.NewSpriteCmd(env, "verify NAME [CHECKPOINT…]", "Verify that the files of checkpoints have not changed", "  lattice sprite checkpoints verify box\n  lattice sprite checkpoints verify box v1 --json", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			return runCheckpointsVerify(ctx, env.Console, c, list[0], list[1:])
		})
	cmd.Long = `Read the files of the named checkpoints, or of all checkpoints of a sprite, and compare them with their state when the
checkpoints were taken. A checkpoint that differs is lost: it can no longer be restored, and the exit code is 1. Only the
embedded host supports this.
` + cli.ExitCodes
	cmd.ValidArgsFunction = completeManyCheckpoints(env)
	return cmd
}

func runCheckpointsVerify(ctx context.Context, console *cli.Console, c *sprites.Client, name string, ids []string) error {
	if len(ids) == 0 {
		points, err := c.AllCheckpoints(ctx, name)
		if err != nil {
			return err
		}
		for _, p := range points {
			ids = append(ids, p.ID)
		}
	}
	found := []sprites.Verified{}
	lost := false
	for i, id := range ids {
		stop := console.ShowWait(fmt.Sprintf("verify %d of %d", i+1, len(ids)))
		v, err := c.Verify(ctx, name, id)
		stop()
		if err != nil {
			return checkpointProblem(ctx, c, name, id, err)
		}
		found, lost = append(found, v), lost || !v.OK
	}
	if err := printVerified(console, found); err != nil {
		return err
	}
	if lost {
		return &cli.ExitError{Code: protocol.ExitFailed}
	}
	return nil
}

func printVerified(console *cli.Console, found []sprites.Verified) error {
	if console.JSON {
		return console.PrintJSON(found)
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECKPOINT\tREAD\tFOUND")
	for _, v := range found {
		verdict := "as it was"
		if !v.OK {
			verdict = "lost: " + cli.Clean(v.Damage)
		}
		fmt.Fprintf(w, "%s\t%s in %d entries\t%s\n", cli.Clean(v.ID), cli.FormatBytes(v.Bytes), v.Entries, verdict)
	}
	return w.Flush()
}
