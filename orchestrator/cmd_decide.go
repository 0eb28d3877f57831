package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
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

func newRejectCmd(d *deps) *cobra.Command {
	cmd := verdictCmd(d, "reject", lattice.Reject, "  lattice reject run_0123 --comment 'not on a Friday'")
	cmd.Long = `Reject what a run waits for. A skill that asked for something is told so and ends as it sees fit; a question of the flow
itself fails with human_rejected. A run that ends by that ends the command with 0. Rejecting twice is the same as rejecting once; who rejects what was approved is told by
whom and when, and ends with 6.
` + withoutRun + exitCodes
	return cmd
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

func newAnswerCmd(d *deps) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:   "answer [RUN] k=v…",
		Short: "Answer a run's question with the inputs that it expects",
		Long: `Answer a run's question. Values are converted to the types that the wait names (lattice waiting shows them); k:=json
gives a value as JSON. Missing, unknown, mistyped or oversized values are refused, and nothing is changed. The first of
several answers counts: the same one again changes nothing, another one is told who answered and when, and ends with 6.

A program in a sprite that printed a question event (or blocked) has ended with that. Its run is over, too: the answer,
answer=TEXT, begins the flow again in a new run, with the same input and options, which finds all answers so far in
.lattice/answers.json and task.json. answer= takes the question's default. lattice show names both runs to each other.
` + withoutRun + exitCodes,
		Example: "  lattice answer count=3\n  lattice answer run_0123 approved=true comments='fine'\n  lattice answer run_0123 'labels:=[\"a\",\"b\"]'",
		Args: args(func(c *cobra.Command, list []string) error {
			if len(list) > 0 && strings.Contains(list[0], "=") {
				return nil
			}
			return cobra.MinimumNArgs(2)(c, list)
		}),
		RunE: func(c *cobra.Command, list []string) error {
			if strings.Contains(list[0], "=") { // which no id of a run does
				return runDecide(c.Context(), d, o, "", lattice.Answer, list)
			}
			return runDecide(c.Context(), d, o, list[0], lattice.Answer, list[1:])
		},
	}
	o.addDecideFlags(cmd, d)
	cmd.ValidArgsFunction = completeAnswers(d)
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

// splitAnswers sorts k=v (typed by the wait) from k:=json.
func splitAnswers(pairs []string, req *api.DecideRequest) error {
	typed := map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, value, err := parsePair(pair)
		if err != nil {
			return err
		}
		var text string
		if pair[len(name)] == '=' && json.Unmarshal(value, &text) == nil {
			if req.Inputs == nil {
				req.Inputs = map[string]string{}
			}
			req.Inputs[name] = text
			continue
		}
		typed[name] = value
	}
	if len(typed) > 0 {
		data, err := json.Marshal(typed)
		if err != nil {
			return err
		}
		req.Typed = data
	}
	return nil
}

func newResumeCmd(d *deps) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Go on with a run that was interrupted",
		Long: `Go on with a run that was interrupted (Ctrl-C, a crash, a host that could not be reached). What was done is not done
again; what was cut off is settled first. Resuming a run that goes on, waits or has ended changes nothing.

The run has what it was started with: its network, host ports, limits, isolation, image, tools, skills and models, whatever
the settings say by now. Values of --agent-env are kept nowhere: a variable that the run was started with and that is not
set here ends the command with 2.
` + exitCodes,
		Example: "  lattice resume\n  lattice resume run_0123",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			ctx := c.Context()
			conn, err := connect(ctx, d, o.leaderOptions)
			if err != nil {
				return err
			}
			defer conn.close()
			before, err := conn.Run(ctx, optional(list))
			if err != nil {
				return err
			}
			d.sayModels(before)
			values, err := d.resumedValues(before, o.agentEnv)
			if err != nil {
				return err
			}
			view, err := conn.Drive(ctx, before.RunID, api.DriveRequest{Values: values, Detach: o.detach})
			if err != nil {
				return err
			}
			if o.detach {
				return conn.detached(ctx, view, values)
			}
			return follow(ctx, d, conn, view, before.LastSeq)
		},
	}
	o.addDetachFlag(cmd)
	o.addWaitFlag(cmd)
	cmd.Flags().StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent (those of the run's start are taken anyway)")
	cmd.ValidArgsFunction = completeRuns(d, unended)
	return cmd
}

func newCancelCmd(d *deps) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cancel [RUN]",
		Short:   "End a run for good",
		Long:    "End a run for good; what it waits for is not decided any more.\n" + withoutRun + "Where none waits, the one run that has not ended is meant.\n" + exitCodes,
		Example: "  lattice cancel run_0123",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			conn, err := connect(c.Context(), d, leaderOptions{})
			if err != nil {
				return err
			}
			defer conn.close()
			chosen, err := chooseRun(c.Context(), conn, optional(list), true)
			if err != nil {
				return err
			}
			view, err := conn.Cancel(c.Context(), chosen.RunID, d.user)
			if err != nil {
				return err
			}
			if d.json {
				err = d.printJSON(view)
			} else {
				_, err = fmt.Fprintf(d.out, "%s %s\n", view.RunID, view.Status)
			}
			if err != nil {
				return err
			}
			if view.Status != lattice.Canceled {
				return &exitError{code: protocol.ExitFailed, err: fmt.Errorf("%s had already ended: %s", view.RunID, view.Status)}
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = completeRuns(d, unended)
	return cmd
}
