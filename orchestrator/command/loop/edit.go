package loop

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/skills/unified"
	"github.com/spritekit/lattice/spritekit/fault"
	loops "github.com/spritekit/lattice/spritekit/loop"
)

// maxFile bounds a spec and the feedback of reviewers.
const maxFile = 256 << 10

// findResting returns the loop of a name, which has to wait for a person. Files that are written into the sprite of another one do not
// count.
func findResting(ctx context.Context, c *connect.Conn, name string) (api.RunView, loop.View, error) {
	v, err := findLoop(ctx, c, name, true, isOpenLoop)
	if err != nil {
		return v, loop.View{}, err
	}
	view, err := inspectLoop(ctx, c, v)
	switch {
	case err != nil:
	case v.Status.Ended():
		err = fault.Busy("loop_state", "%s has ended: %s", view.Name, view.Status).WithHint("start another loop: lattice loop start")
	case v.Driving:
		err = fault.Busy("loop_state", "%s is at work", view.Name).WithHint("lattice loop stop %s", view.Name)
	case len(v.Waits) == 0:
		err = fault.Busy("loop_state", "%s was interrupted, and its iteration is repeated when it goes on", view.Name).WithHint("lattice loop resume %s, then lattice loop stop %s", view.Name, view.Name)
	}
	return v, view, err
}

func newUpdateCmd(env *setup.Env) *cobra.Command {
	var spec string
	cmd := connect.NewQueryCmd(env, "update [LOOP] --spec FILE", "Give a resting loop a new spec", "  lattice loop update --spec spec.md && lattice loop resume", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			text, err := readNonEmpty(ctx, env, "--spec", spec)
			if err != nil {
				return err
			}
			v, view, err := findResting(ctx, c, cli.Optional(list))
			if err != nil {
				return err
			}
			old, err := readFile(ctx, c, v, loops.SpecFile)
			if err != nil {
				return err
			}
			if old == text {
				return fault.Busy("loop_state", "the spec of %s is the same", view.Name)
			}
			if err := writeFile(ctx, c, v, loops.SpecDiffFile, unified.Diff("a/spec.md", "b/spec.md", old, text)); err != nil {
				return err
			}
			if err := writeFile(ctx, c, v, loops.SpecFile, text); err != nil {
				return err
			}
			return printNext(env, view, "has a new spec")
		})
	cmd.Long = `Give a loop that waits for a person a new spec. The next iteration gets it together with the difference to the old one, in
rfc-diff.md, and is told to update the list of tasks first.
` + exitCodes
	cmd.Flags().StringVar(&spec, "spec", "", "`FILE` with the new spec, in Markdown; - is standard input")
	cmd.ValidArgsFunction = completeLoops(env, isOpenLoop)
	return cmd
}

func newReviewCmd(env *setup.Env) *cobra.Command {
	var feedback string
	cmd := connect.NewQueryCmd(env, "review [LOOP] --feedback FILE", "Give a resting loop the feedback of reviewers", "  lattice loop review --feedback comments.md && lattice loop resume", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			text, err := readNonEmpty(ctx, env, "--feedback", feedback)
			if err != nil {
				return err
			}
			v, view, err := findResting(ctx, c, cli.Optional(list))
			if err != nil {
				return err
			}
			if w := v.Waits[0]; loop.Publishes(w.Node) { // its result is not accepted, so that the loop goes on
				if v, err = rejectResult(ctx, env, c, v, w); err != nil {
					return err
				}
			}
			if err := writeFile(ctx, c, v, loops.FeedbackFile, text); err != nil {
				return err
			}
			return printNext(env, view, "has the feedback")
		})
	cmd.Long = `Give a loop that waits for a person the feedback of reviewers. The next iteration is told to make tasks of it. The result of a loop that is
done is rejected: it is not pushed, and the loop can go on.
` + exitCodes
	cmd.Flags().StringVar(&feedback, "feedback", "", "`FILE` with the feedback, in Markdown; - is standard input")
	cmd.ValidArgsFunction = completeLoops(env, isOpenLoop)
	return cmd
}

// rejectResult rejects the result of a loop, and waits until the loop rests.
func rejectResult(ctx context.Context, env *setup.Env, c *connect.Conn, v api.RunView, w lattice.Wait) (api.RunView, error) {
	values, err := env.Values().Renew(v, nil)
	if err != nil {
		return v, err
	}
	reply, err := c.Decide(ctx, v.RunID, api.DecideRequest{WaitID: w.ID, Decision: lattice.Reject, Comments: "reviewers left feedback", By: env.User, Values: values})
	if err != nil {
		return v, err
	}
	v = reply.Run
	err = c.WatchOutline(ctx, v.RunID, v.LastSeq, func(l api.WatchLine) error {
		if l.View != nil {
			v = *l.View
		}
		return nil
	})
	return v, err
}

// readNonEmpty reads the file that a flag names.
func readNonEmpty(ctx context.Context, env *setup.Env, flag, name string) (string, error) {
	if name == "" {
		return "", cli.UsageErrorf("%s is required", flag)
	}
	data, err := env.ReadInputFile(ctx, name)
	switch {
	case err != nil:
		return "", err
	case len(data) == 0 || len(data) > maxFile:
		return "", fault.BadInput("bad_input", "%s has %d bytes, not between 1 and %d", name, len(data), maxFile)
	}
	return string(data), nil
}

// readFile reads a file of a loop from its sprite, "" if there is none.
func readFile(ctx context.Context, c *connect.Conn, v api.RunView, name string) (string, error) {
	var data []byte
	err := withSprites(c, func(client *sprites.Client) (err error) {
		data, err = client.ReadFile(ctx, v.Sprite, pathOf(name), maxFile)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), setup.ExplainSprite(err)
}

// printNext prints a success and the command with which the loop goes on.
func printNext(env *setup.Env, v loop.View, done string) error {
	return env.PrintResult(map[string]any{"run_id": v.RunID, "name": v.Name, "ok": true},
		"%s %s\n  next: lattice loop resume %s", cli.Clean(v.Name), done, cli.Clean(v.Name))
}
