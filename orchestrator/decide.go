package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

type decideOptions struct {
	leaderOptions
	wait, comment string
	agentEnv      []string
	yes           bool // do not ask
	ask           bool // show what is decided, and ask
}

func (o *decideOptions) addDecideFlags(cmd *cobra.Command, d *deps) {
	o.addDetachFlag(cmd)
	cmd.Flags().StringVar(&o.wait, "wait", "", "`ID` of the wait, when the run has several open")
	cmd.Flags().StringVar(&o.comment, "comment", "", "why; the waiting skill is told")
	cmd.Flags().StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent (those of the run's start are taken anyway)")
	_ = cmd.RegisterFlagCompletionFunc("wait", completeWaits(d))
	cmd.ValidArgsFunction = completeRuns(d, waiting)
}

// verdictCmd makes the command for a bare yes or no.
func verdictCmd(d *deps, verb string, decision lattice.Decision, example string) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:     verb + " [RUN]",
		Short:   strings.ToUpper(verb[:1]) + verb[1:] + " what a run waits for, and follow the run",
		Example: example,
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return runDecide(c.Context(), d, o, optional(list), decision, nil)
		},
	}
	o.addDecideFlags(cmd, d)
	return cmd
}

func runDecide(ctx context.Context, d *deps, o decideOptions, run string, decision lattice.Decision, pairs []string) error {
	req := api.DecideRequest{WaitID: o.wait, Decision: decision, Comments: o.comment, By: d.user}
	if err := splitAnswers(pairs, &req); err != nil {
		return err
	}
	c, err := connect(ctx, d, o.leaderOptions)
	if err != nil {
		return err
	}
	defer c.close()
	view, err := chooseRun(ctx, c, run, false)
	if err != nil {
		return err
	}
	d.sayModels(view)
	if req.Values, err = d.renewedValues(view, o.agentEnv); err != nil {
		return err
	}
	if req.WaitID == "" && len(view.Waits) == 1 {
		req.WaitID = view.Waits[0].ID // what is open now, and not what may be open when the decision arrives
	}
	if o.ask {
		if err := confirm(ctx, d, c, view, req.WaitID); err != nil {
			return err
		}
	}
	req.Detach = o.detach
	reply, err := c.Decide(ctx, view.RunID, req)
	if err != nil {
		return err
	}
	if reply.Duplicate {
		fmt.Fprintf(d.err, "%s: that was decided before, by %s at %s; nothing changed\n", view.RunID, clean(reply.By), clean(reply.At))
	}
	if reply.Run.RunID != view.RunID {
		fmt.Fprintf(d.err, "%s goes on in %s\n", view.RunID, reply.Run.RunID)
	}
	if o.detach {
		return c.detached(ctx, reply.Run, req.Values)
	}
	if decision != lattice.Reject {
		return follow(ctx, d, c, reply.Run, view.LastSeq)
	}
	ended, err := watchRun(ctx, d, c, reply.Run, view.LastSeq)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(view.Waits, func(w lattice.Wait) bool { return w.ID == reply.WaitID })
	err = conclude(ctx, d, c, ended)
	if ended.Status == lattice.Failed && ended.Error != nil && (i < 0 || ended.Error.Node == view.Waits[i].Node) {
		return nil // which is what was asked for
	}
	return err
}
