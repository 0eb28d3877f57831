package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/launch"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
	loops "github.com/spritekit/lattice/spritekit/loop"
)

type startOptions struct {
	launch.Options
	limits                      limitFlags
	spec, tasks, template, wisp string
	agent, model, shell, branch string
	verify, protect, agentTools []string
	restore                     string
	bestOf                      int
	headless, pull              bool
	agentTimeout                time.Duration
}

// limitFlags are the flags of the limits of a loop. Those that are not given are zero.
type limitFlags struct {
	iterations, stuck, repeat int
	cost                      float64
	duration                  time.Duration
}

func (l *limitFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&l.iterations, "max-iterations", 0, "stop after `N` iterations (default 50)")
	f.Float64Var(&l.cost, "max-cost", 0, "stop when all calls of the agent cost so many US `DOLLARS`, as the agent reports it")
	f.DurationVar(&l.duration, "max-duration", 0, "stop after so much `TIME` of work, without waits for people")
	f.IntVar(&l.stuck, "stuck-after", 0, "stop after `N` iterations without progress (default 3)")
	f.IntVar(&l.repeat, "repeat-after", 0, "stop after `N` iterations with the same error (default 5)")
}

// readLimits returns the limits that were given, and refuses those that are out of their bounds.
func (l *limitFlags) readLimits(cmd *cobra.Command) (loops.Limits, error) {
	for _, name := range []string{"max-iterations", "max-cost", "max-duration", "stuck-after", "repeat-after"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed && (flag.Value.String() == "0" || flag.Value.String() == "0s") {
			return loops.Limits{}, cli.UsageErrorf("--%s must be more than 0", name)
		}
	}
	limits := loops.Limits{
		MaxIterations: l.iterations, MaxCostUSD: l.cost, MaxDurationS: l.duration.Seconds(), StuckAfter: l.stuck, RepeatAfter: l.repeat,
	}
	if err := limits.Check(); err != nil {
		return limits, cli.UsageErrorf("%w", err)
	}
	return limits, nil
}

func newStartCmd(env *setup.Env) *cobra.Command {
	var o startOptions
	cmd := &cobra.Command{
		Use:   "start --repo URL|PATH --spec FILE",
		Short: "Start a loop and follow it until it is done, stops or needs input",
		Long: `Start a loop and follow it. The spec is a file in Markdown; - is standard input. --verify is a line for the shell that must succeed
on each commit; by default the project's own tests are found. --template is a folder with iterate.md, which comes in front of the
spec, and context.md, which is added to the agent's system prompt; one of the two may be missing.

--import takes spec and tasks from a session folder of wisp, such as .wisp/sessions/feature-x; --spec and --tasks override. Its
templates can be named, too: --template .wisp/templates/default.

--restore says when the files of the sprite go back to those before the agent's call: on_red, after a red verification, once one was
green; each, after every call, so that only the change of the repository stays; on_failure, after a crash or any red verification;
or never.

With --best-of, each iteration lets N agents work side by side, each in a copy of the sprite, and keeps the best change: a green
one, then the one with most tasks that pass, then the smallest.

--checkpoint begins with the files of a checkpoint, such as one in which tools were installed; the other sprite stays as it is.
--sibling-repos checks further repositories out to /workspace/NAME, next to /workspace/repo. The kernel refuses the agent
changes of them; an iteration that leaves one changed all the same counts as a crash.

The first Ctrl-C pauses the loop, and lattice loop resume continues it. With --headless, a loop that stops fails instead of
waiting for a person; a question waits all the same, and the command ends with 75.
` + exitCodes,
		Example: `  lattice loop start --repo . --spec spec.md --agent claude --verify 'go vet ./...' --verify 'go test ./...'
  lattice loop start --repo . --spec spec.md --agent-command 'sh agent.sh' --name parser --max-iterations 10 --headless
  lattice loop start --repo . --import .wisp/sessions/feature-x --agent claude --max-cost 5`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.CheckFlags(c); err != nil {
				return err
			}
			limits, err := o.limits.readLimits(c)
			if err != nil {
				return err
			}
			return runStart(c.Context(), env, o, limits)
		},
	}
	o.AddFlags(env, cmd)
	o.limits.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.WorkItem, "name", "", "`NAME` of the loop (default: its run)")
	f.StringVar(&o.spec, "spec", "", "`FILE` with the work, in Markdown; - is standard input")
	f.StringVar(&o.tasks, "tasks", "", "JSON `FILE` with the tasks to begin with (default: the agent makes the list)")
	f.StringVar(&o.template, "template", "", "`FOLDER` with iterate.md and context.md")
	f.StringVar(&o.wisp, "import", "", "session `FOLDER` of wisp to take spec and tasks from")
	f.StringVar(&o.agent, "agent", "", "`NAME` of the agent: claude, codex, gemini, opencode, openclaw, acp …")
	f.StringVar(&o.shell, "agent-command", "", "`LINE` for the shell that starts a program in the agent's place")
	f.StringVar(&o.model, "agent-model", "", "`MODEL`, by the agent's own name for it")
	f.StringSliceVar(&o.agentTools, "agent-tool", nil, "skill that the agent has as a tool; repeatable")
	f.DurationVar(&o.agentTimeout, "agent-timeout", 0, "end one call of the agent after so much `TIME`")
	f.StringArrayVar(&o.verify, "verify", nil, "`LINE` for the shell that must succeed on each commit; repeatable")
	f.StringArrayVar(&o.protect, "protect", nil, "`PATTERN` of files that are verified as they are in the first commit; repeatable (default: the usual test files)")
	f.StringVar(&o.branch, "branch", "", "`BRANCH` that the result is pushed to (default: lattice/RUN)")
	f.BoolVar(&o.pull, "pull-request", false, "ask for a pull request of the result, instead of a push of its branch")
	f.StringSliceVar(&o.Siblings, "sibling-repos", nil, "`REPO[@REF]`, a URL or a path, to check out next to the repository for reading; repeatable")
	f.StringVar(&o.Checkpoint, "checkpoint", "", "begin in a copy of `SPRITE@CHECKPOINT`, instead of an empty sprite")
	f.StringVar(&o.restore, "restore", "on_red", "take the files back to before the agent's call: on_red, never, each or on_failure")
	f.IntVar(&o.bestOf, "best-of", 1, "let `N` agents work on each iteration, each in a copy of the sprite, and keep the best change")
	f.BoolVar(&o.headless, "headless", false, "fail when the loop stops, instead of waiting for a person")
	_ = cmd.RegisterFlagCompletionFunc("restore", cobra.FixedCompletions(restoreModes(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("agent", cobra.FixedCompletions(append(slices.Clone(setup.AgentNames), "acp"), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// restoreModes are the values of --restore.
func restoreModes() []string { return []string{"on_red", "never", "each", "on_failure"} }

// maxBestOf bounds --best-of, as the flow does.
const maxBestOf = 8

// checkFiles refuses values of --restore and --best-of that have no effect.
func (o *startOptions) checkFiles() error {
	switch {
	case !slices.Contains(restoreModes(), o.restore):
		return cli.UsageErrorf("--restore is %q, not on_red, never, each or on_failure", o.restore)
	case o.bestOf < 1 || o.bestOf > maxBestOf:
		return cli.UsageErrorf("--best-of is %d, not between 1 and %d", o.bestOf, maxBestOf)
	case o.bestOf > 1 && o.restore != "never" && o.restore != "on_red":
		return cli.UsageErrorf("--restore has no effect with --best-of, whose agents work in copies")
	}
	return nil
}

func runStart(ctx context.Context, env *setup.Env, o startOptions, limits loops.Limits) error {
	input, err := o.buildInput(ctx, env, limits)
	if err != nil {
		return err
	}
	o.Alone, o.From.BuiltIn = true, true
	run, err := launch.Start(ctx, env, o.Options, loop.Flow, input)
	if err != nil {
		return err
	}
	defer run.Close()
	if o.DryRun {
		return launch.PrintDryRun(env.Console, run.View)
	}
	if o.Detach {
		return run.Detached(ctx, run.View, run.Values)
	}
	return watchLoop(ctx, env, run.Conn, run.View, 0)
}

// buildInput returns the input of the flow.
func (o *startOptions) buildInput(ctx context.Context, env *setup.Env, limits loops.Limits) (json.RawMessage, error) {
	if o.Repo == "" {
		return nil, cli.UsageErrorf("--repo is required")
	}
	if (o.agent == "") == (o.shell == "") {
		return nil, cli.UsageErrorf("one of --agent and --agent-command is required")
	}
	if o.shell != "" && (o.model != "" || limits.MaxCostUSD > 0 || len(o.agentTools) > 0) {
		return nil, cli.UsageErrorf("--agent-model, --agent-tool and --max-cost have no effect with --agent-command, whose program reports no cost")
	}
	if err := o.checkFiles(); err != nil {
		return nil, err
	}
	in := map[string]any{"headless": o.headless}
	set := func(name string, value any, given bool) {
		if given {
			in[name] = value
		}
	}
	if err := o.readFiles(ctx, env, set); err != nil {
		return nil, err
	}
	var commands [][]string
	for _, line := range o.verify {
		commands = append(commands, []string{"sh", "-c", line})
	}
	set("commands", commands, len(commands) > 0)
	set("protect", o.protect, len(o.protect) > 0)
	set("agent", o.agent, o.agent != "")
	set("agent_command", o.shell, o.shell != "")
	set("agent_model", o.model, o.model != "")
	set("agent_tools", o.agentTools, len(o.agentTools) > 0)
	set("agent_timeout_s", o.agentTimeout.Seconds(), o.agentTimeout > 0)
	set("branch", o.branch, o.branch != "")
	set("pull_request", true, o.pull)
	set("restore", o.restore, o.restore != "on_red")
	set("best_of", o.bestOf, o.bestOf > 1)
	set("max_iterations", limits.MaxIterations, limits.MaxIterations > 0)
	set("max_cost_usd", limits.MaxCostUSD, limits.MaxCostUSD > 0)
	set("max_duration_s", limits.MaxDurationS, limits.MaxDurationS > 0)
	set("stuck_after", limits.StuckAfter, limits.StuckAfter > 0)
	set("repeat_after", limits.RepeatAfter, limits.RepeatAfter > 0)
	return json.Marshal(in)
}

// readFiles reads spec, tasks and template.
func (o *startOptions) readFiles(ctx context.Context, env *setup.Env, set func(string, any, bool)) error {
	var session loop.Imported
	if o.wisp != "" {
		var err error
		if session, err = loop.Import(os.DirFS(filepath.Clean(o.wisp))); err != nil {
			return fault.BadInput("bad_input", "import %s: %v", o.wisp, err).WithHint("a session folder of wisp has tasks.json, and spec.md or --spec")
		}
	}
	if o.spec != "" {
		data, err := env.ReadInputFile(ctx, o.spec)
		if err != nil {
			return err
		}
		session.Spec = string(data)
	}
	if session.Spec == "" {
		return cli.UsageErrorf("--spec is required, and the spec must not be empty")
	}
	if o.tasks != "" {
		data, err := env.ReadInputFile(ctx, o.tasks)
		if err != nil {
			return err
		}
		if session.Tasks, err = loops.ParseTasks(data); err != nil {
			return fault.BadInput("bad_input", "%s: %v", o.tasks, err).WithHint(`it holds an array of {"description": TEXT, "passes": false}`)
		}
	}
	if o.template != "" {
		t, err := loop.ReadTemplate(os.DirFS(filepath.Clean(o.template)))
		if err != nil {
			return fault.BadInput("bad_input", "template %s: %v", o.template, err).WithHint("a template is a folder with iterate.md or context.md")
		}
		session.Template = t
	}
	set("spec", session.Spec, true)
	set("tasks", session.Tasks, len(session.Tasks) > 0)
	set("instructions", session.Instructions, session.Instructions != "")
	set("agent_context", session.Context, session.Context != "")
	return nil
}

// watchLoop follows a loop to its end or its next rest, and ends the command with the exit code of its outcome.
func watchLoop(ctx context.Context, env *setup.Env, c *connect.Conn, run api.RunView, known lattice.Seq) error {
	run, err := follow.Watch(ctx, env.Console, c, run, known)
	if err != nil {
		return err
	}
	view, err := inspectLoop(ctx, c, run)
	if err != nil {
		return err
	}
	if view.Status == loop.Failed {
		follow.DescribeFailure(env.Console, run)
	}
	if err := printLoop(env.Console, view); err != nil {
		return err
	}
	for _, w := range run.Waits {
		if w.Node != loop.AskNode && w.Node != loop.StopNode && w.Node != loop.RaiseNode {
			follow.DescribeWait(env.Err, run, w)
		}
	}
	if view.Status == loop.Running {
		return fmt.Errorf("the loop was interrupted: %s", run.Note)
	}
	if view.Exit != 0 {
		return &cli.ExitError{Code: view.Exit}
	}
	return nil
}
