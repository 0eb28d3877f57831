package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

type runOptions struct {
	connect.Options
	fresh                                               equip.Options
	repo, ref, sprite, image, workItem, inputFile, goal string
	approveWorld                                        []string // skills
	inputs, allow, agentEnv, tools                      []string
	from                                                sources.Options
	limits                                              equip.LimitOptions
	uncommitted, keep, dry                              bool
	constraints                                         []string
	acceptance, key                                     string
	keepSaid                                            bool
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
setting world.allow names the skill. Nothing else leaves the sprite.

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
  lattice run fix-and-propose --repo git@example.com:team/app.git --allow 'fs:read,fs:write,git:read,git:write,test:run,agent:run'`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if c.Flags().Changed("allow") && len(o.allow) == 0 {
				return equip.RefuseNoPermission()
			}
			if o.key != "" && o.dry {
				return cli.UsageErrorf("--key starts a run, and --dry-run starts none")
			}
			o.keepSaid = c.Flags().Changed("keep")
			return runRun(c.Context(), env, o, list[0])
		},
	}
	o.fresh.AddFlags(cmd)
	o.AddDetachFlag(cmd)
	o.AddWaitFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.repo, "repo", "", "repository `URL|PATH` to copy into the sprite; it receives approved pushes")
	f.StringVar(&o.ref, "ref", "", "branch, tag or commit of the repository (default: what is checked out there)")
	f.BoolVar(&o.uncommitted, "include-uncommitted", false, "include uncommitted changes of a local repository")
	f.StringArrayVar(&o.inputs, "input", nil, "flow input `k=v` (text) or k:=json; repeatable")
	f.StringVar(&o.inputFile, "input-file", "", "JSON `FILE` with the flow's inputs; - is standard input")
	f.StringVar(&o.sprite, "sprite", "", "use this sprite instead of a fresh one")
	f.StringSliceVar(&o.allow, "allow", nil, "permissions that the run's calls may have (default: all but git:push, credential:fetch, net)")
	f.StringArrayVar(&o.approveWorld, "approve-world", nil, "call the skill `NAME`, which acts outside of the sprite, without asking first; repeatable")
	f.StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent; its value is never stored")
	f.StringVar(&o.workItem, "work-item", "", "`ID` of the issue or task that the run is about (default: the run's id)")
	f.StringVar(&o.goal, "goal", "", "the goal of the run; written to task.json")
	f.StringArrayVar(&o.constraints, "constraint", nil, "`k=v` or k:=json that the work must respect; written to task.json (repeatable)")
	f.StringVar(&o.acceptance, "acceptance", "", "when the work is done; written to task.json")
	equip.AddImageFlag(env, cmd, &o.image)
	o.limits.AddFlags(cmd, "the new sprite's")
	equip.AddToolFlag(cmd, &o.tools)
	o.from.AddFlags(cmd)
	f.StringVar(&o.key, "key", "", "start the run once: with the same `TEXT` again, continue the run that was started with it")
	f.BoolVar(&o.dry, "dry-run", false, "check whether the run can start, and print with what; start nothing")
	f.BoolVar(&o.keep, "keep", false, "never remove the run's sprite")
	_ = cmd.RegisterFlagCompletionFunc("allow", complete.Permissions)
	_ = cmd.RegisterFlagCompletionFunc("input", sources.CompleteInputs)
	_ = cmd.RegisterFlagCompletionFunc("approve-world", sources.CompleteWorldCalls(env, &o.from))
	_ = cmd.RegisterFlagCompletionFunc("sprite", complete.Sprites(env))
	cmd.ValidArgsFunction = sources.CompleteFlows
	return cmd
}

// withSettings takes values that no flag sets from the settings, and of their variables those that are set here.
func (o *runOptions) withSettings(env *setup.Env) {
	s := env.Settings.Run
	if len(o.allow) == 0 {
		o.allow = s.Allow
	}
	o.keep = o.keep || s.Keep && !o.keepSaid
	o.agentEnv = env.WithAgentEnv(o.agentEnv)
}

func runRun(ctx context.Context, env *setup.Env, o runOptions, flow string) error {
	doc, name, err := sources.Lower(ctx, env, flow, o.from)
	if err != nil {
		return err
	}
	input, err := readInput(ctx, env.Console, o.inputFile, o.inputs)
	if err != nil {
		return err
	}
	o.withSettings(env)
	var routes []string
	o.agentEnv, routes = env.AgentPreset(o.agentEnv, input)
	secrets, err := env.Secrets(o.agentEnv)
	if err != nil {
		return err
	}
	repo, err := absoluteRepo(o.repo)
	if err != nil {
		return err
	}
	if err := o.fresh.Check(env, o.sprite); err != nil {
		return err
	}
	tools, err := equip.CheckSpriteTools(env, o.tools)
	if err != nil {
		return err
	}
	if len(tools) > 0 && o.sprite != "" {
		return fault.BadInput("tools_of_sprite", "--tool takes effect when a sprite is created, and %s exists already", o.sprite).WithHint("leave out --sprite, or create another sprite: lattice sprite create NAME --tool %s", tools[0])
	}
	if err := cmp.Or(o.limits.Check(), o.limits.OfSprite(o.sprite)); err != nil {
		return err
	}
	if o.limits.Least != "" && env.RemoteSprites() != nil {
		return fault.Unsupported("isolation_is_local", "the isolation of remote sprites is up to their service").WithHint("leave out --min-isolation")
	}
	if err := equip.ImageOfSprite(o.image, o.sprite); err != nil {
		return err
	}
	skills, err := equip.FindSkillFolders(env, o.from.Skills, o.sprite)
	if err != nil {
		return err
	}
	c, err := connect.Dial(ctx, env, o.Options)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Warn(ctx); err != nil {
		return err
	}
	image, err := findRunImage(ctx, c, o)
	if err != nil {
		return err
	}
	constraints, err := readConstraints(o.constraints)
	if err != nil {
		return err
	}
	req := api.RunRequest{Flow: doc, Input: input, Detach: o.Detach, Options: env.Models().AddTo(api.Options{
		FlowName: name, Repo: repo, Ref: o.ref, IncludeUncommitted: o.uncommitted, Sprite: o.sprite, Image: image, Limits: o.limits.Config(), MinIsolation: o.limits.Least.String(), Grants: o.allow, ApproveWorld: o.approveWorld,
		WorkItem: o.workItem, Goal: o.goal, Constraints: constraints, Acceptance: o.acceptance, Keep: o.keep, Tools: tools, Skills: skills, Spritekit: o.fresh.Path(), AgentEnv: o.agentEnv, Routes: routes, Values: api.Values{Secrets: secrets},
	})}
	if o.sprite == "" && env.RemoteSprites() == nil { // its own sprite gets these from flags and settings
		o.limits.WithSettings(env.Settings)
		req.Limits, req.MinIsolation = o.limits.Config(), o.limits.Least.String()
		if image == "" || image == sprites.NoImage {
			req.Tools = equip.ListRunTools(env, tools)
		}
		req.Network, req.HostPorts = equip.ChooseReach(ctx, env, o.fresh.Network)
	}
	if err := checkAgentVisible(env, req); err != nil {
		return err
	}
	var warnings []string
	if fresh := o.sprite == "" && env.RemoteSprites() == nil && (image == "" || image == sprites.NoImage); fresh { // others may hold a login
		if problem, hint := env.MissingAgentKey(input, o.agentEnv, routes); problem != "" {
			warnings = append(warnings, problem+"; "+hint)
		}
	}
	req.DryRun = o.dry
	if o.key != "" {
		req.Key = lattice.StartKey(o.key)
	}
	view, err := c.Start(ctx, req)
	if err != nil {
		return err
	}
	view.Notice = append(warnings, view.Notice...)
	for _, line := range view.Notice {
		fmt.Fprintf(env.Err, "lattice: %s\n", cli.Clean(line))
	}
	if o.dry {
		return printDryRun(env.Console, view)
	}
	if o.Detach {
		return c.Detached(ctx, view, req.Values)
	}
	if view, err = follow.Watch(ctx, env.Console, c, view, 0); err != nil {
		return err
	}
	err = follow.Conclude(ctx, env.Console, c, view)
	follow.VerifyProposals(ctx, env.Console, c, view, req.Values)
	return err
}

// findRunImage is deps.startImage for the sprite that a run is given, "" where the run has one.
func findRunImage(ctx context.Context, c *connect.Conn, o runOptions) (string, error) {
	if o.sprite != "" {
		return "", nil
	}
	hc := api.HTTPClient(c.Socket)
	defer hc.CloseIdleConnections()
	return equip.FindStartImage(ctx, c.Env, sprites.New(api.Base, "", hc), o.image)
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

// absoluteRepo makes a path absolute, so that another process's leader means the same place.
func absoluteRepo(repo string) (string, error) {
	if repo == "" || strings.Contains(repo, "://") {
		return repo, nil
	}
	if _, err := os.Stat(repo); err != nil {
		if strings.Contains(repo, ":") { // git@host:path
			return repo, nil
		}
		return "", fault.NotFound("repo_not_found", "read repository: %v", err).WithHint("--repo takes a URL or the path of a git repository")
	}
	return filepath.Abs(repo)
}
