package decide

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
)

type decideOptions struct {
	connect.Options
	wait, comment string
	agentEnv      []string
	yes           bool // do not ask
	ask           bool // show the change, and ask
}

func (o *decideOptions) addDecideFlags(cmd *cobra.Command, env *setup.Env) {
	o.AddDetachFlag(cmd)
	cmd.Flags().StringVar(&o.wait, "wait", "", "`ID` of the wait, if the run has several")
	cmd.Flags().StringVar(&o.comment, "comment", "", "the reason; the waiting skill receives it")
	follow.AddAgentEnvFlag(cmd, &o.agentEnv)
	_ = cmd.RegisterFlagCompletionFunc("wait", complete.Waits(env))
	cmd.ValidArgsFunction = complete.Runs(env, complete.IsWaiting)
}

// verdictCmd makes the command for a bare yes or no.
func verdictCmd(env *setup.Env, verb string, decision lattice.Decision, example string) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:     verb + " [RUN]",
		Short:   strings.ToUpper(verb[:1]) + verb[1:] + " what a run waits for, and follow the run",
		Example: example,
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return runDecide(c.Context(), env, o, cli.Optional(list), decision, nil)
		},
	}
	o.addDecideFlags(cmd, env)
	return cmd
}

func runDecide(ctx context.Context, env *setup.Env, o decideOptions, run string, decision lattice.Decision, pairs []string) error {
	req := api.DecideRequest{WaitID: o.wait, Decision: decision, Comments: o.comment, By: env.User}
	if err := splitAnswers(pairs, &req); err != nil {
		return err
	}
	c, err := connect.Dial(ctx, env, o.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	view, err := connect.ChooseRun(ctx, c, run, false)
	if err != nil {
		return err
	}
	setup.WarnOfChangedModels(env, view)
	if req.Values, err = env.Values().Renew(view, o.agentEnv); err != nil {
		return err
	}
	if req.WaitID == "" && len(view.Waits) == 1 {
		req.WaitID = view.Waits[0].ID // the wait that is open now, not one that opens before the decision arrives
	}
	if o.ask {
		if err := confirm(ctx, env.Console, c, view, req.WaitID); err != nil {
			return err
		}
	}
	req.Detach = o.Detach
	reply, err := c.Decide(ctx, view.RunID, req)
	if err != nil {
		return err
	}
	if reply.Duplicate {
		fmt.Fprintf(env.Err, "%s: %s decided this already, at %s; nothing changed\n", view.RunID, cli.Clean(reply.By), cli.Clean(reply.At))
	}
	if reply.Run.RunID != view.RunID {
		fmt.Fprintf(env.Err, "%s goes on in %s\n", view.RunID, reply.Run.RunID)
	}
	if o.Detach {
		return c.Detached(ctx, reply.Run, req.Values)
	}
	if decision != lattice.Reject {
		return follow.Run(ctx, env.Console, c, reply.Run, view.LastSeq)
	}
	ended, err := follow.Watch(ctx, env.Console, c, reply.Run, view.LastSeq)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(view.Waits, func(w lattice.Wait) bool { return w.ID == reply.WaitID })
	err = follow.Conclude(ctx, env.Console, c, ended)
	if ended.Status == lattice.Failed && ended.Error != nil && (i < 0 || ended.Error.Node == view.Waits[i].Node) {
		return nil // as the person wanted
	}
	return err
}
