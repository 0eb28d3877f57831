package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// planRounds is how often a model may mend its plan, the first one included.
const planRounds = 3

type planOptions struct {
	goal, class, file string
	from              sources.Options
}

func newPlanCmd(env *setup.Env) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Let a model write a plan for a goal",
		Long: fmt.Sprintf(`Let a model write a plan for a goal. The plan is checked like any flow, and findings go back to the model, which is asked for
at most %d plans. If the last one still has errors, the command prints its findings instead and ends with 1. Each question to
the model is a run, which lattice runs and lattice replay show. The plan itself is not run.
`, planRounds) + sources.Help + setup.ModelsHelp + cli.ExitCodes,
		Example: "  lattice flow plan --goal 'email Sarah the minutes' --skill ./contacts.search -o plan.json\n  lattice flow explain plan.json && lattice run plan.json",
		Args:    cli.Args(cobra.NoArgs),
		RunE:    func(c *cobra.Command, _ []string) error { return runPlan(c.Context(), env, o) },
	}
	cmd.Flags().StringVar(&o.goal, "goal", "", "the goal, in words")
	cmd.Flags().StringVar(&o.class, "model-class", "MEDIUM_PLAN", "the `CLASS` of models to ask, as the settings name it")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write the plan to `FILE`, which must not exist")
	o.from.AddFlags(cmd)
	_ = cmd.MarkFlagRequired("goal")
	return cmd
}

func runPlan(ctx context.Context, env *setup.Env, o planOptions) error {
	if strings.TrimSpace(o.goal) == "" {
		return fault.BadInput("goal_missing", "the goal is empty").WithHint("state the goal in words with --goal")
	}
	if _, err := os.Lstat(o.file); o.file != "" && err == nil {
		return fault.BadInput("file_exists", "%s already exists", o.file).WithHint("name another file, or remove it")
	}
	rules, err := sources.ReadRules(env, o.from.Steps)
	if err != nil {
		return err
	}
	planner, err := compile.Planner(o.class, rules)
	if err != nil {
		return err
	}
	c, err := connect.Dial(ctx, env, connect.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	var plan json.RawMessage
	var findings []finding.Finding
	for range planRounds {
		if plan, err = draftPlan(ctx, c, planner, o.goal, plan, findings); err != nil {
			return err
		}
		var flow *compile.Flow
		if flow, findings, err = sources.Parse(env, plan, o.from); err != nil {
			return err
		}
		if flow != nil {
			return writePlan(env.Console, o, plan, findings)
		}
		fmt.Fprintf(env.Err, "the plan has %s\n", cli.Count(len(findings), "finding", "findings"))
	}
	p := sources.Refuse("that was planned", findings).(*fault.Error)
	p.Exit = protocol.ExitFailed
	p.Fault.Hint = "state the goal in other words, or ask a stronger model with --model-class"
	return p
}

// draftPlan asks for a plan in a run of its own, and waits for that to end.
func draftPlan(ctx context.Context, c *connect.Conn, planner json.RawMessage, goal string, before json.RawMessage, findings []finding.Finding) (json.RawMessage, error) {
	input, err := json.Marshal(map[string]string{"request": compile.Request(goal, before, findings)})
	if err != nil {
		return nil, fmt.Errorf("write the planner's input: %w", err)
	}
	view, err := c.Start(ctx, api.RunRequest{Flow: planner, Input: input, Options: c.Env.Models().AddTo(api.Options{FlowName: "planner", Goal: goal})})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.Env.Err, "%s asks a model for a plan\n", view.RunID)
	err = c.Watch(ctx, view.RunID, 0, func(l api.WatchLine) error {
		if l.View != nil {
			view = *l.View
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if view.Status != lattice.Succeeded {
		return nil, follow.Conclude(ctx, c.Env.Console, c, view)
	}
	var draft compile.Draft
	if err := json.Unmarshal(view.Outputs, &draft); err != nil {
		return nil, fmt.Errorf("read the draft: %w", err)
	}
	return draft.Plan(goal)
}

// writePlan prints a sound plan, or writes it to a new file, with its warnings on standard error.
func writePlan(console *cli.Console, o planOptions, plan json.RawMessage, findings []finding.Finding) error {
	for _, f := range findings {
		fmt.Fprintln(console.Err, cli.Clean(fmt.Sprintf("%s %s %s: %s", f.Severity, f.Code, f.Pointer, f.Message)))
	}
	if o.file == "" {
		_, err := cli.Escape(console.Out).Write(plan)
		return err
	}
	f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	if _, err := f.Write(plan); err != nil {
		_ = f.Close() // the write's error is the one that counts
		return fmt.Errorf("write plan: %w", err)
	}
	return f.Close()
}
