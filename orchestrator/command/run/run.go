package run

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/launch"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/spritekit/fault"
)

type runOptions struct {
	launch.Options
	inputFile string
	inputs    []string
}

func newRunCmd(env *setup.Env) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run FLOW",
		Short: "Run a flow and follow it until it ends or waits for a person",
		Long: `Run a flow: a file with a workflow graph or ExecIR, - for standard input, or the name of a built-in one (lattice flow ls).

With --repo, lattice reads the repository here, with your own git and credentials, and copies it into the sprite as a bundle.
A push by the flow waits for your approval; in a local repository it creates the branch lattice/<run>. The run also waits
for approval before it calls a skill that acts outside of the sprite (side_effect "world"), unless --approve-world or the
setting world.allow names the skill. Nothing else leaves the sprite. --copy copies files of this machine into the workspace.

When a run needs a person, the command ends with 75 and prints what to type next. A program that asks by a legacy question
event is answered in a new run (lattice answer --help). A failed run keeps its sprite. The first Ctrl-C pauses the run, and
lattice resume continues it.

With --dry-run, lattice checks everything that it can check before a run starts, such as inputs, permissions, repository,
sprite, models, whether sprites see the agent and whether it has a key, and whether the repository tells how it is tested.
Nothing is started. A run prints the same warnings before it begins.

With --detach, a leader in the background (lattice serve) drives the run, and you can show, answer or cancel it from any
terminal. The command prints the run's id and ends; with --json it prints an object with run_id and status. The leader ends
by itself after it has been idle for a while.

If the flow has an input agent, such as claude, lattice takes that agent's key, base URL and model from the environment, if
they are set, and says which. Keys for Anthropic, OpenAI, Gemini and OpenRouter stay outside of the sprite: the agent sends
its requests to the host over plain HTTP, and the host adds the key; a provider's key in the settings works as well. The
host records these requests in model-requests.jsonl of the run. --agent-env NAME passes a value into the sprite, for other
agents and for credentials that cannot stay outside: signed requests (Bedrock, Vertex) and OAuth logins. Agents in remote
sprites, which do not reach the host, get the key itself. When the call ends, and before lattice takes a checkpoint, the
value is removed from the agent's own files; copies that it makes elsewhere, and checkpoints that a remote service takes by
itself, may still contain it. The settings hold defaults for --allow, --agent-env and --keep (lattice --help).
` + sources.Help + setup.ModelsHelp + cli.ExitCodes,
		Example: `  lattice run fix-and-propose --repo . --input 'agent_command:=["sh","fix.sh"]'
  lattice run flow.json --input name=value --input 'n:=3' --json
  lattice run flow.json --repo . --image ./rootfs.tar.zst
  lattice run fix-and-propose --repo . --input-file task.json --detach
  lattice run import-handoff --repo . --copy .lattice/out --input handoff=out --input pull_request:=true
  lattice run fix-and-propose --repo git@example.com:team/app.git --allow 'fs:read,fs:write,git:read,git:write,test:run,agent:run'`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if o.Key != "" && o.DryRun {
				return cli.UsageErrorf("--key starts a run, and --dry-run starts none")
			}
			if err := o.CheckFlags(c); err != nil {
				return err
			}
			return runRun(c.Context(), env, o, list[0])
		},
	}
	o.AddFlags(env, cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.inputs, "input", nil, "flow input `k=v` (text) or k:=json; repeatable")
	f.StringVar(&o.inputFile, "input-file", "", "JSON `FILE` with the flow's inputs; - is standard input")
	f.StringArrayVar(&o.ApproveWorld, "approve-world", nil, "call the skill `NAME`, which acts outside of the sprite, without asking first; repeatable")
	f.StringVar(&o.WorkItem, "work-item", "", "`ID` of the issue or task that the run is about (default: the run's id)")
	f.StringVar(&o.Goal, "goal", "", "the goal of the run; written to task.json")
	f.StringArrayVar(&o.Constraints, "constraint", nil, "`k=v` or k:=json that the work must respect; written to task.json (repeatable)")
	f.StringVar(&o.Acceptance, "acceptance", "", "when the work is done; written to task.json")
	f.StringVar(&o.Key, "key", "", "start the run once: with the same `TEXT` again, continue the run that was started with it")
	o.From.AddFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("input", sources.CompleteInputs)
	_ = cmd.RegisterFlagCompletionFunc("approve-world", sources.CompleteWorldCalls(env, &o.From))
	cmd.ValidArgsFunction = sources.CompleteFlows
	return cmd
}

func runRun(ctx context.Context, env *setup.Env, o runOptions, flow string) error {
	input, err := readInput(ctx, env.Console, o.inputFile, o.inputs)
	if err != nil {
		return err
	}
	run, err := launch.Start(ctx, env, o.Options, flow, input)
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
	view, err := follow.Watch(ctx, env.Console, run.Conn, run.View, 0)
	if err != nil {
		return err
	}
	err = follow.Conclude(ctx, env.Console, run.Conn, view)
	follow.VerifyProposals(ctx, env.Console, run.Conn, view, run.Values)
	return err
}

// readInput merges an input file with k=v and k:=json pairs; pairs win.
func readInput(ctx context.Context, console *cli.Console, file string, pairs []string) (json.RawMessage, error) {
	in := map[string]json.RawMessage{}
	if file != "" {
		data, err := console.ReadInputFile(ctx, file)
		if err != nil {
			return nil, err
		}
		if err := cli.OnlyOnce(file, data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, fault.BadInput("bad_input", "%s is not a JSON object: %v", file, err).WithHint(`the file holds the flow's inputs: {"name": value, …}`)
		}
		if in == nil {
			return nil, fault.BadInput("bad_input", "%s is not a JSON object: it is null", file).WithHint("{} has no inputs")
		}
		delete(in, "$schema") // the file's, for editors
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		name, value, err := cli.ParsePair(pair)
		if err != nil {
			return nil, err
		}
		if given[name] {
			return nil, fault.BadInput("key_duplicate", "the input %s is given twice", name).WithHint("keep one of the two; --input overrides --input-file")
		}
		in[name], given[name] = value, true
	}
	return json.Marshal(in)
}
