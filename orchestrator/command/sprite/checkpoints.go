package sprite

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newSpriteCheckpointsCmd(env *setup.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "checkpoints NAME",
		Short: "List, verify and delete a sprite's checkpoints",
		Long: `List a sprite's checkpoints, newest first; with --all also those that the host makes before each restore. A sprite that is
called like one of the commands below is named after --.

A checkpoint is created in an instant and durable when it would survive a loss of power, soon after. One is lost when its
files are missing or are not what they were.
` + cli.ExitCodes,
		Example: "  lattice sprite checkpoints box\n  lattice sprite checkpoints verify box\n  lattice sprite checkpoints rm box v1 v2",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				points, err := listCheckpoints(ctx, client, list[0], all)
				if err != nil {
					return setup.ExplainSprite(err)
				}
				return printCheckpoints(env.Console, points)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list the automatic ones")
	cmd.AddCommand(newCheckpointsVerifyCmd(env), newCheckpointsRmCmd(env))
	return cmd
}

func listCheckpoints(ctx context.Context, c *sprites.Client, name string, all bool) ([]sprites.Checkpoint, error) {
	if all {
		return c.AllCheckpoints(ctx, name)
	}
	return c.Checkpoints(ctx, name)
}

func printCheckpoints(console *cli.Console, points []sprites.Checkpoint) error {
	if console.JSON {
		return console.PrintJSON(append([]sprites.Checkpoint{}, points...))
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECKPOINT\tAGE\tSTATE\tCOMMENT")
	for _, p := range points {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.Clean(p.ID), cli.Age(p.CreateTime), healthText(p), cli.Clean(p.Comment))
	}
	return w.Flush()
}

// healthText says how far a checkpoint can be relied on.
func healthText(p sprites.Checkpoint) string {
	switch {
	case p.Health != "":
		return "lost"
	case p.Unverified:
		return "unverified"
	case p.Durable:
		return "durable"
	}
	return "created"
}

func newCheckpointsVerifyCmd(env *setup.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify NAME [CHECKPOINT…]",
		Short: "Read the files of checkpoints again and compare them with what they were",
		Long: `Read the files of the named checkpoints again, or of all of a sprite's, and compare them with what they were when the
checkpoints were made. One that differs is lost: it is not restored any more, and the exit code is 1. Only the embedded
host can do this.
` + cli.ExitCodes,
		Example: "  lattice sprite checkpoints verify box\n  lattice sprite checkpoints verify box v1 --json",
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				return setup.ExplainSprite(runCheckpointsVerify(ctx, env.Console, client, list[0], list[1:]))
			})
		},
		ValidArgsFunction: completeManyCheckpoints(env),
	}
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
	for _, id := range ids {
		v, err := c.Verify(ctx, name, id)
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

func newCheckpointsRmCmd(env *setup.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm NAME CHECKPOINT…",
		Short: "Delete checkpoints",
		Long: `Delete checkpoints of a sprite. What other checkpoints, the present state or forks have in common with one stays; the rest
of its room on the disk is free soon after.
` + cli.RemovalHelp + cli.ExitCodes,
		Example: "  lattice sprite checkpoints rm box v1 v2",
		Args:    cli.Args(cobra.MinimumNArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				return cli.RemoveEach(ctx, env.Console, list[1:], func(ctx context.Context, id string) error {
					return setup.ExplainSprite(checkpointProblem(ctx, client, list[0], id, client.DeleteCheckpoint(ctx, list[0], id)))
				})
			})
		},
		ValidArgsFunction: completeManyCheckpoints(env),
	}
	return cmd
}

// completeManyCheckpoints offers a sprite, then any number of its checkpoints.
func completeManyCheckpoints(env *setup.Env) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete.Checkpoints(env)(c, list[:min(len(list), 1)], word)
	}
}

func newSpriteCheckpointCmd(env *setup.Env) *cobra.Command {
	var comment string
	cmd := connect.NewSpriteCmd(env, "checkpoint NAME", "Take a checkpoint and print its id", "  lattice sprite checkpoint box --comment 'before the upgrade'", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		cp, err := c.Checkpoint(ctx, list[0], comment)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(cp)
		}
		_, err = fmt.Fprintln(env.Out, cp.ID)
		return err
	})
	cmd.Flags().StringVar(&comment, "comment", "", "what this checkpoint is")
	return cmd
}
