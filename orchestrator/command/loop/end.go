package loop

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// newForwardCmd returns a command that is another one of lattice with a loop in place of its run or sprite. The flags in set are
// given to the other command.
func newForwardCmd(env *setup.Env, cmd *cobra.Command, keep func(api.RunView) bool, target []string, argument func(context.Context, *connect.Conn, api.RunView) (string, map[string]string, error)) *cobra.Command {
	cmd.Args = cli.Args(cobra.MaximumNArgs(1))
	cmd.Long = cmd.Short + ".\n" + cmd.Long + exitCodes
	cmd.RunE = func(c *cobra.Command, list []string) error {
		other, _, err := c.Root().Find(target)
		if err != nil {
			return err
		}
		name, flags, err := func() (string, map[string]string, error) {
			conn, err := connect.Dial(c.Context(), env, connect.Options{})
			if err != nil {
				return "", nil, err
			}
			defer conn.Close()
			v, err := findLoop(c.Context(), conn, cli.Optional(list), false, keep)
			if err != nil {
				return "", nil, err
			}
			return argument(c.Context(), conn, v)
		}()
		if err != nil {
			return err
		}
		for flag, value := range flags {
			if err := other.Flags().Set(flag, value); err != nil {
				return err
			}
		}
		other.SetContext(c.Context())
		return other.RunE(other, []string{name})
	}
	cmd.ValidArgsFunction = completeLoops(env, keep)
	return cmd
}

func newTailCmd(env *setup.Env) *cobra.Command {
	return newForwardCmd(env, &cobra.Command{
		Use: "tail [LOOP]", Short: "Print the output of a loop's agent, and follow it until the loop rests",
		Example: "  lattice loop tail\n  lattice loop tail feature-x",
	}, isLoop, []string{"logs"}, func(_ context.Context, _ *connect.Conn, v api.RunView) (string, map[string]string, error) {
		return v.RunID, map[string]string{"follow": "true"}, nil
	})
}

func newAttachCmd(env *setup.Env) *cobra.Command {
	return newForwardCmd(env, &cobra.Command{
		Use: "attach [LOOP]", Short: "Open a shell in the sprite of a loop",
		Long:    "The repository is in /workspace/repo, the files of the loop in /workspace/.lattice/loop. Changes count while the loop waits for a\nperson; see lattice loop stop.\n",
		Example: "  lattice loop attach\n  lattice loop attach feature-x",
	}, isOpenLoop, []string{"sprite", "console"}, func(_ context.Context, _ *connect.Conn, v api.RunView) (string, map[string]string, error) {
		if v.Sprite == "" {
			return "", nil, fault.NotFound("loop_not_found", "%s has no sprite", nameOf(v)).WithHint("lattice loop status %s", nameOf(v))
		}
		return v.Sprite, nil, nil
	})
}

func newDoneCmd(env *setup.Env) *cobra.Command {
	var yes bool
	cmd := newForwardCmd(env, &cobra.Command{
		Use: "done [LOOP]", Short: "Approve the result of a loop that is done, which pushes it",
		Long:    "It is lattice approve, for a loop: it shows the change and asks. A loop that is not done is refused. With --pull-request of\nlattice loop start, it opens the pull request.\n",
		Example: "  lattice loop done\n  lattice loop done feature-x --yes",
	}, isWaitingToPush, []string{"approve"}, func(ctx context.Context, c *connect.Conn, v api.RunView) (string, map[string]string, error) {
		view, err := inspectLoop(ctx, c, v)
		if err != nil {
			return "", nil, err
		}
		if !isWaitingToPush(v) {
			hint := "lattice loop status " + view.Name
			if len(view.Next) > 0 {
				hint = view.Next[0]
			}
			return "", nil, fault.Busy("loop_state", "%s is not done: %s", view.Name, view.Status).WithHint("%s", hint)
		}
		if !env.JSON {
			if err := printLoop(env.Console, view); err != nil {
				return "", nil, err
			}
			printResult(env, view)
		}
		return v.RunID, map[string]string{"yes": fmt.Sprint(yes)}, nil
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// printResult prints the agent's own words about the result.
func printResult(env *setup.Env, v loop.View) {
	out := cli.Sanitize(env.Out)
	if v.Pull != nil {
		fmt.Fprintf(out, "  pull request: %s\n%s\n", clipLine(v.Pull.Title, 200), v.Pull.Body)
	}
	if v.Divergence != "" {
		fmt.Fprintf(out, "  differs from the spec:\n%s\n", v.Divergence)
	}
}

// isWaitingToPush reports whether a run is a loop that is done and waits for a person's approval.
func isWaitingToPush(v api.RunView) bool {
	return isOpenLoop(v) && len(v.Waits) > 0 && loop.Publishes(v.Waits[0].Node)
}

func newAbandonCmd(env *setup.Env) *cobra.Command {
	var all bool
	cmd := connect.NewQueryCmd(env, "abandon [LOOP]", "End a loop for good and remove its sprite", "  lattice loop abandon feature-x\n  lattice loop abandon --all", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if !all {
				v, err := findLoop(ctx, c, cli.Optional(list), true, isOpenLoop)
				if err != nil {
					return err
				}
				return abandonLoop(ctx, env, c, v)
			}
			if len(list) > 0 {
				return cli.UsageErrorf("--all and the name of a loop exclude each other")
			}
			runs, err := c.Runs(ctx, api.RunList{Flow: loop.Flow, Open: true})
			if err != nil {
				return err
			}
			for _, r := range runs {
				v, err := c.Run(ctx, r.RunID)
				if err != nil {
					return err
				}
				if err := abandonLoop(ctx, env, c, v); err != nil {
					return err
				}
			}
			return nil
		})
	cmd.Long = "End a loop for good. Its sprite is removed if it was made for the loop; its commits are lost unless they were pushed.\n" + exitCodes
	cmd.Flags().BoolVar(&all, "all", false, "abandon all loops that have not ended")
	cmd.ValidArgsFunction = completeLoops(env, isOpenLoop)
	return cmd
}

// abandonLoop cancels the run of a loop and removes the sprite that was made for it.
func abandonLoop(ctx context.Context, env *setup.Env, c *connect.Conn, v api.RunView) error {
	if v.Status.Ended() {
		return fault.Busy("loop_state", "%s has ended: %s", nameOf(v), v.Status).WithHint("lattice sprite prune removes what ended runs left")
	}
	ended, err := c.Cancel(ctx, v.RunID, env.User)
	if err != nil {
		return err
	}
	removed := false
	if v.Sprite != "" && v.StartedWith != nil && v.StartedWith.Image != "" { // it was made for the loop
		err := withSprites(c, func(client *sprites.Client) error { return client.Delete(ctx, v.Sprite) })
		if err != nil {
			return setup.ExplainSprite(err)
		}
		removed = true
	}
	return env.PrintResult(map[string]any{"run_id": v.RunID, "name": nameOf(v), "status": loop.Abandoned, "run_status": ended.Status, "sprite_removed": removed},
		"%s abandoned", cli.Clean(nameOf(v)))
}
