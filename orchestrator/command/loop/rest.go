package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/loop/iterations"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	loops "github.com/spritekit/lattice/spritekit/loop"
)

// pathOf returns the place of a file of a loop in its sprite.
func pathOf(name string) string { return "/workspace/" + loops.Dir + "/" + name }

// withSprites hands the client of the sprites' host to do.
func withSprites(c *connect.Conn, do func(*sprites.Client) error) error {
	if client := c.Env.RemoteSprites(); client != nil {
		return do(client)
	}
	hc := api.HTTPClient(c.Socket)
	defer hc.CloseIdleConnections()
	return do(sprites.New(api.Base, "", hc))
}

// writeFile writes a file of a loop into its sprite.
func writeFile(ctx context.Context, c *connect.Conn, v api.RunView, name, text string) error {
	return setup.ExplainSprite(withSprites(c, func(client *sprites.Client) error {
		return client.Files().WriteFile(ctx, v.Sprite, pathOf(name), strings.NewReader(text), 0o644)
	}))
}

func newStopCmd(env *setup.Env) *cobra.Command {
	var now bool
	cmd := connect.NewQueryCmd(env, "stop [LOOP]", "End the work of a loop after this iteration", "  lattice loop stop\n  lattice loop stop feature-x --now", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			v, err := findLoop(ctx, c, cli.Optional(list), true, func(v api.RunView) bool { return isOpenLoop(v) && v.Driving })
			if err != nil {
				return err
			}
			if !v.Driving {
				view, err := inspectLoop(ctx, c, v)
				if err != nil {
					return err
				}
				fmt.Fprintf(env.Err, "lattice: %s is not at work\n", view.Name)
				return printLoop(env.Console, view)
			}
			if now {
				v, err = c.Stop(ctx, v.RunID)
			} else {
				v, err = awaitRest(ctx, env, c, v)
			}
			if err != nil {
				return err
			}
			view, err := inspectLoop(ctx, c, v)
			if err != nil {
				return err
			}
			return printLoop(env.Console, view)
		})
	cmd.Long = `Ask a loop to rest, and wait until its iteration has ended. A person can then change its files, and lattice loop resume has it go
on. With --now the work ends at once; the iteration is repeated from its beginning when the loop goes on, without changes that
were made in between.
` + exitCodes
	cmd.Flags().BoolVar(&now, "now", false, "end the work at once")
	cmd.ValidArgsFunction = completeLoops(env, isOpenLoop)
	return cmd
}

// awaitRest asks a loop to rest, as soon as it has a sprite, and waits until it does.
func awaitRest(ctx context.Context, env *setup.Env, c *connect.Conn, v api.RunView) (api.RunView, error) {
	fmt.Fprintf(env.Err, "lattice: %s stops after this iteration; Ctrl-C ends waiting\n", cli.Clean(nameOf(v)))
	err := c.WatchOutline(ctx, v.RunID, 0, func(l api.WatchLine) error {
		if l.View == nil {
			return nil
		}
		v = *l.View
		if !v.Driving {
			return nil
		}
		err := writeFile(ctx, c, v, "stop", "") // each time: files that go back take the request away
		if p := fault.As(err); err != nil && p != nil && p.Code == "not_found" {
			return nil // it has no sprite yet
		}
		return err
	})
	return v, err
}

type resumeOptions struct {
	follow.Options
	limits limitFlags
	answer string
	said   bool // --answer was given
}

func newResumeCmd(env *setup.Env) *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use:   "resume [LOOP]",
		Short: "Have a loop go on, with an answer or with higher limits",
		Long: `Have a loop go on that asked a question, stopped, or was interrupted. A question needs --answer. A loop at a limit needs a higher
one. A loop that stopped for another reason goes on with --answer, which its agent reads, or without; files that were edited in
its sprite count: tasks.json, spec.md, and a state.json, which stands for the agent's next answer. Repetitions are counted again
from zero; the limits hold for the whole loop.
` + exitCodes,
		Example: "  lattice loop resume\n  lattice loop resume feature-x --answer 'use the second one'\n  lattice loop resume --max-iterations 80",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			limits, err := o.limits.readLimits(c)
			if err != nil {
				return err
			}
			o.said = c.Flags().Changed("answer")
			return runResume(c.Context(), env, o, cli.Optional(list), limits)
		},
	}
	o.AddFlags(cmd, env)
	o.limits.addFlags(cmd)
	cmd.Flags().StringVar(&o.answer, "answer", "", "`TEXT` for the agent")
	cmd.ValidArgsFunction = completeLoops(env, isOpenLoop)
	return cmd
}

func runResume(ctx context.Context, env *setup.Env, o resumeOptions, name string, limits loops.Limits) error {
	c, err := connect.Dial(ctx, env, o.Options.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := findLoop(ctx, c, name, true, isOpenLoop)
	if err != nil {
		return err
	}
	view, err := inspectLoop(ctx, c, v)
	if err != nil {
		return err
	}
	setup.WarnOfChangedModels(env, v)
	if i := slices.IndexFunc(v.Waits, func(w lattice.Wait) bool { return w.Kind == lattice.WaitHuman }); i >= 0 {
		req, err := o.chooseDecision(view, v.Waits[i], limits)
		if err != nil {
			return err
		}
		if req.Values, err = env.Values().Renew(v, o.AgentEnv); err != nil {
			return err
		}
		req.By, req.Detach = env.User, o.Detach
		reply, err := c.Decide(ctx, v.RunID, req)
		if err != nil {
			return err
		}
		return o.goOn(ctx, env, c, reply.Run, v.LastSeq, req.Values)
	}
	switch {
	case v.Status.Ended():
		return fault.Busy("loop_state", "%s has ended: %s", view.Name, view.Status).WithHint("lattice loop rewind %s, or start another loop", view.Name)
	case len(v.Waits) > 0 && loop.Publishes(v.Waits[0].Node):
		return fault.Busy("loop_state", "%s is done and waits for your decision", view.Name).WithHint("lattice loop done %s, or lattice loop review %s --feedback FILE", view.Name, view.Name)
	case len(v.Waits) > 0:
		return fault.Busy("loop_state", "%s waits for a decision: %s", view.Name, v.Waits[0].Prompt).WithHint("%s", follow.NextCommands(v.RunID, v.Waits[0])[0])
	case o.said || limits != (loops.Limits{}):
		return cli.UsageErrorf("%s is %s: an answer or a limit has no effect", view.Name, view.Status)
	}
	values, err := env.Values().Resume(v, o.AgentEnv)
	if err != nil {
		return err
	}
	driven, err := c.Drive(ctx, v.RunID, api.DriveRequest{Values: values, Detach: o.Detach})
	if err != nil {
		return err
	}
	return o.goOn(ctx, env, c, driven, v.LastSeq, values)
}

// chooseDecision returns the decision with which a loop goes on that waits at w.
func (o *resumeOptions) chooseDecision(v loop.View, w lattice.Wait, limits loops.Limits) (api.DecideRequest, error) {
	req := api.DecideRequest{WaitID: w.ID, Decision: lattice.Answer}
	if w.Node != loop.RaiseNode {
		if limits != (loops.Limits{}) {
			return req, cli.UsageErrorf("%s is %s: a limit has no effect", v.Name, v.Status)
		}
		if w.Node == loop.AskNode && strings.TrimSpace(o.answer) == "" {
			return req, cli.UsageErrorf("%s asks: %s; --answer is required", v.Name, clipLine(v.Reason, 500))
		}
		answer := o.answer
		if answer == "" {
			answer = "Go on."
		}
		req.Inputs = map[string]string{"answer": answer}
		return req, nil
	}
	flag, enough := "", false
	switch loops.Decision(v.Status) {
	case loops.DecideMaxCost:
		flag, enough = "--max-cost", limits.MaxCostUSD > v.Memory.CostUSD
	case loops.DecideMaxDuration:
		flag, enough = "--max-duration", limits.MaxDurationS*1000 > float64(v.Memory.DurationMS)
	default:
		flag, enough = "--max-iterations", limits.MaxIterations > v.Memory.Iterations
	}
	switch {
	case !enough:
		return req, cli.UsageErrorf("%s reached a limit: %s; a higher %s is required", v.Name, v.Reason, flag)
	case o.said:
		return req, cli.UsageErrorf("%s asks for a limit: --answer has no effect", v.Name)
	}
	typed, err := json.Marshal(map[string]any{"limits": limits})
	req.Typed = typed
	return req, err
}

// goOn follows a loop that goes on, or leaves it to the background.
func (o *resumeOptions) goOn(ctx context.Context, env *setup.Env, c *connect.Conn, v api.RunView, known lattice.Seq, values api.Values) error {
	if o.Detach {
		return c.Detached(ctx, v, values)
	}
	return watchLoop(ctx, env, c, v, known)
}

func newRewindCmd(env *setup.Env) *cobra.Command {
	var o resumeOptions
	var to int
	var across bool
	cmd := &cobra.Command{
		Use:   "rewind [LOOP] --to N",
		Short: "Take a loop back to the beginning of an iteration, with its files, and continue from there",
		Long: `Take a loop back to the call of the agent in iteration N: its prompt, its list of tasks, its memory and the files of the sprite. Nothing is deleted: the
journal keeps the later iterations, which no longer count. Without --to, the command lists the iterations.
` + exitCodes,
		Example: "  lattice loop rewind\n  lattice loop rewind feature-x --to 3",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return runRewind(c.Context(), env, o, cli.Optional(list), to, across)
		},
	}
	o.AddFlags(cmd, env)
	cmd.Flags().IntVar(&to, "to", 0, "go back to the beginning of iteration `N`")
	cmd.Flags().BoolVar(&across, "across-effects", false, "also go back behind effects outside of the sprite, such as a push")
	cmd.ValidArgsFunction = completeLoops(env, isLoop)
	return cmd
}

func runRewind(ctx context.Context, env *setup.Env, o resumeOptions, name string, to int, across bool) error {
	c, err := connect.Dial(ctx, env, o.Options.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := findLoop(ctx, c, name, to != 0, isLoop)
	if err != nil {
		return err
	}
	view, err := inspectLoop(ctx, c, v)
	if err != nil {
		return err
	}
	if to == 0 {
		return printLoop(env.Console, view)
	}
	moments, err := c.Moments(ctx, v.RunID)
	if err != nil {
		return err
	}
	at := iterations.FindWork(moments, view, to)
	if at == nil {
		return fault.NotFound("loop_not_found", "%s has no iteration %d in which an agent was called", view.Name, to).WithHint("lattice loop status %s lists the iterations", view.Name)
	}
	values, err := env.Values().Require(v, o.AgentEnv...)
	if err != nil {
		return err
	}
	back, err := c.Rewind(ctx, v.RunID, api.RewindRequest{
		To: at.String(), Epoch: v.Epoch, AcrossEffects: across, By: env.User, Detach: o.Detach, Models: env.Models().Named, Values: values,
	})
	if err != nil {
		return err
	}
	for _, line := range back.Notice {
		fmt.Fprintln(env.Err, cli.Clean(line))
	}
	return o.goOn(ctx, env, c, back, v.LastSeq, values)
}
