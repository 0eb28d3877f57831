package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

type runOptions struct {
	leaderOptions
	fresh                                               spriteOptions
	repo, ref, sprite, image, workItem, inputFile, goal string
	approveWorld                                        []string // skills
	inputs, allow, agentEnv, tools                      []string
	from                                                flowSources
	limits                                              limitOptions
	uncommitted, keep, dry                              bool
	constraints                                         []string
	acceptance                                          string
	keepSaid                                            bool
}

func newRunCmd(d *deps) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run FLOW",
		Short: "Run a flow and follow it until it ends or waits for a person",
		Long: `Run a flow: a file with a workflow graph or ExecIR, - for standard input, or the name of a built-in one (lattice flow ls).

With --repo the repository is read here, with your own git and credentials, and travels into the sprite as a bundle;
what the flow pushes lands there as branch lattice/<run> (a local path) after a person approved it. Before each call of a
skill that acts outside (side_effect "world") the run waits for approval, too, unless --approve-world or the setting
world.allow names the skill. Nothing else leaves the sprite. A run that needs a person ends the command with 75 and prints what to type next; a program that asks by a
question event of old is answered by a new run (lattice answer --help). A failed run keeps its sprite. The first Ctrl-C
stops driving; the run stays resumable.

With --dry-run everything that is known before a run starts is judged, such as its inputs, permissions, repository, sprite,
models, and whether sprites see the agent; nothing starts.

With --detach a leader in the background (lattice serve) drives the run; any terminal may look at it, answer or cancel
it. The command prints the run's id and ends (with --json one object with run_id and status). That leader ends by itself
when it has had nothing to do for a while.

An input agent such as claude takes the key, the base URL and the model of that agent from the environment, where they are
set, and says which. Keys of claude and codex stay outside of the sprite: the agent asks the host at a plain address, and the
host adds the key; a key of a provider in the settings will do, too. The host keeps a record, model-requests.jsonl, with the
run. --agent-env NAME hands a value over as it is, for other agents and for what cannot be kept outside: signed requests
(Bedrock, Vertex) and OAuth logins. It is then removed from the agent's own files when the call ends; a checkpoint that the
agent takes while it works, and copies that it makes elsewhere, may hold it. Defaults of --allow, --agent-env and --keep come
from the settings (lattice --help).
` + sourcesHelp + modelsHelp + exitCodes,
		Example: `  lattice run fix-and-propose --repo . --input 'agent_command:=["sh","fix.sh"]'
  lattice run flow.json --input name=value --input 'n:=3' --json
  lattice run flow.json --repo . --image ./rootfs.tar.zst
  lattice run fix-and-propose --repo . --input-file task.json --detach
  lattice run fix-and-propose --repo git@example.com:team/app.git --allow 'fs:read,fs:write,git:read,git:write,test:run,agent:run'`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if c.Flags().Changed("allow") && len(o.allow) == 0 {
				return allowsNothing()
			}
			o.keepSaid = c.Flags().Changed("keep")
			return runRun(c.Context(), d, o, list[0])
		},
	}
	o.fresh.addFlags(cmd)
	o.addDetachFlag(cmd)
	o.addWaitFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.repo, "repo", "", "repository `URL|PATH` that seeds the sprite and receives approved pushes")
	f.StringVar(&o.ref, "ref", "", "branch, tag or commit of the repository (default: what is checked out there)")
	f.BoolVar(&o.uncommitted, "include-uncommitted", false, "take uncommitted changes of a local repository along")
	f.StringArrayVar(&o.inputs, "input", nil, "flow input `k=v` (text) or k:=json; repeatable")
	f.StringVar(&o.inputFile, "input-file", "", "JSON object with flow inputs; - is standard input")
	f.StringVar(&o.sprite, "sprite", "", "use this sprite instead of a fresh one")
	f.StringSliceVar(&o.allow, "allow", nil, "permissions that the run's calls may have (default: all but git:push, credential:fetch, net)")
	f.StringArrayVar(&o.approveWorld, "approve-world", nil, "call the skill `NAME`, which acts outside, without asking first; repeatable")
	f.StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent; its value is never stored")
	f.StringVar(&o.workItem, "work-item", "", "`ID` of the issue or task that this is about (default: the run's id)")
	f.StringVar(&o.goal, "goal", "", "what the run is for; written to task.json")
	f.StringArrayVar(&o.constraints, "constraint", nil, "`k=v` or k:=json that the work keeps to; written to task.json (repeatable)")
	f.StringVar(&o.acceptance, "acceptance", "", "when the work is done; written to task.json")
	addImageFlag(d, cmd, &o.image)
	o.limits.addFlags(cmd, "the new sprite's")
	addToolFlag(cmd, &o.tools)
	o.from.addFlags(cmd)
	f.BoolVar(&o.dry, "dry-run", false, "say whether the run could start, and with what, and start nothing")
	f.BoolVar(&o.keep, "keep", false, "never remove the run's sprite")
	_ = cmd.RegisterFlagCompletionFunc("allow", completePermissions)
	_ = cmd.RegisterFlagCompletionFunc("input", completeInputs)
	_ = cmd.RegisterFlagCompletionFunc("approve-world", completeWorldCalls(d, &o.from))
	_ = cmd.RegisterFlagCompletionFunc("sprite", completeSprites(d))
	cmd.ValidArgsFunction = completeFlows
	return cmd
}

// withSettings fills in what neither flag said. Variables of the settings are taken as far as they are set here.
func (o *runOptions) withSettings(d *deps) {
	s := d.settings.Run
	if len(o.allow) == 0 {
		o.allow = s.Allow
	}
	o.keep = o.keep || s.Keep && !o.keepSaid
	for _, name := range s.AgentEnv {
		if d.getenv(name) != "" && !slices.Contains(o.agentEnv, name) {
			o.agentEnv = append(o.agentEnv, name)
		}
	}
}

func runRun(ctx context.Context, d *deps, o runOptions, flow string) error {
	doc, name, err := d.lowered(ctx, flow, o.from)
	if err != nil {
		return err
	}
	input, err := readInput(ctx, d, o.inputFile, o.inputs)
	if err != nil {
		return err
	}
	o.withSettings(d)
	routes := d.givesAgent(&o, input)
	secrets, err := d.secrets(o.agentEnv)
	if err != nil {
		return err
	}
	repo, err := absoluteRepo(o.repo)
	if err != nil {
		return err
	}
	if err := o.fresh.check(d, o.sprite); err != nil {
		return err
	}
	tools, err := d.spriteTools(o.tools)
	if err != nil {
		return err
	}
	if len(tools) > 0 && o.sprite != "" {
		return fault.BadInput("tools_of_sprite", "what a sprite is shown is chosen when it is made, and %s is there already", o.sprite).WithHint("leave --sprite out, or make one: lattice sprite create NAME --tool %s", tools[0])
	}
	if err := cmp.Or(o.limits.check(), o.limits.ofSprite(o.sprite)); err != nil {
		return err
	}
	if o.limits.least != "" && d.remoteSprites() != nil {
		return fault.Unsupported("isolation_is_local", "how firmly remote sprites are kept apart is for their service to say").WithHint("leave --min-isolation out")
	}
	if err := imageOfSprite(o.image, o.sprite); err != nil {
		return err
	}
	skills, err := d.ownSkills(o.from.skills, o.sprite)
	if err != nil {
		return err
	}
	c, err := connect(ctx, d, o.leaderOptions)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.warn(ctx); err != nil {
		return err
	}
	image, err := c.startImage(ctx, o)
	if err != nil {
		return err
	}
	constraints, err := readConstraints(o.constraints)
	if err != nil {
		return err
	}
	req := api.RunRequest{Flow: doc, Input: input, Detach: o.detach, Options: d.askingModels(api.Options{
		FlowName: name, Repo: repo, Ref: o.ref, IncludeUncommitted: o.uncommitted, Sprite: o.sprite, Image: image, Limits: o.limits.config(), MinIsolation: o.limits.least.String(), Grants: o.allow, ApproveWorld: o.approveWorld,
		WorkItem: o.workItem, Goal: o.goal, Constraints: constraints, Acceptance: o.acceptance, Keep: o.keep, Tools: tools, Skills: skills, Spritekit: o.fresh.path(), AgentEnv: o.agentEnv, Routes: routes, Values: api.Values{Secrets: secrets},
	})}
	if o.sprite == "" && d.remoteSprites() == nil { // what its own sprite has of here, by flags and settings
		o.limits.withSettings(d.settings)
		req.Limits, req.MinIsolation = o.limits.config(), o.limits.least.String()
		if image == "" || image == sprites.NoImage {
			req.Tools = d.ownTools(tools)
		}
		req.Network, req.HostPorts = d.reach(ctx, o.fresh.network)
	}
	if err := d.agentVisible(req); err != nil {
		return err
	}
	req.DryRun = o.dry
	view, err := c.Start(ctx, req)
	if err != nil {
		return err
	}
	for _, line := range view.Notice {
		fmt.Fprintf(d.err, "lattice: %s\n", clean(line))
	}
	if o.dry {
		return d.printDry(view)
	}
	if o.detach {
		return c.detached(ctx, view, req.Values)
	}
	return follow(ctx, d, c, view, 0)
}

// startImage is deps.startImage for the sprite that a run is given, "" where the run has one.
func (c *conn) startImage(ctx context.Context, o runOptions) (string, error) {
	if o.sprite != "" {
		return "", nil
	}
	hc := api.HTTPClient(c.socket)
	defer hc.CloseIdleConnections()
	return c.d.startImage(ctx, sprites.New(api.Base, "", hc), o.image)
}

// readInput merges an input file with k=v and k:=json pairs; pairs win.
func readInput(ctx context.Context, d *deps, file string, pairs []string) (json.RawMessage, error) {
	in := map[string]json.RawMessage{}
	if file != "" {
		data, err := d.readInputFile(ctx, file)
		if err != nil {
			return nil, err
		}
		if err := onlyOnce(file, data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, fault.BadInput("bad_input", "%s is no JSON object: %v", file, err).WithHint(`the file holds the flow's inputs: {"name": value, …}`)
		}
		if in == nil {
			return nil, fault.BadInput("bad_input", "%s is no JSON object: it is null", file).WithHint("{} has no inputs")
		}
		delete(in, "$schema") // the file's, for editors
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		name, value, err := parsePair(pair)
		if err != nil {
			return nil, err
		}
		if given[name] {
			return nil, fault.BadInput("key_duplicate", "the input %s is given twice", name).WithHint("keep one of the two; one of --input replaces that of --input-file")
		}
		in[name], given[name] = value, true
	}
	return json.Marshal(in)
}

// onlyOnce refuses JSON in which an object has the same member twice: which of the two counts nobody can know.
func onlyOnce(what string, data []byte) error {
	twice := ir.Duplicates(data)
	if len(twice) == 0 {
		return nil
	}
	return fault.BadInput("key_duplicate", "%s has members that stand twice in their object: %s", what, strings.Join(twice, ", ")).WithHint("keep one of the two")
}

// parsePair reads k=v (a string) or k:=json.
func parsePair(pair string) (string, json.RawMessage, error) {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || name == "" || name == ":" {
		return "", nil, fault.BadInput("bad_input", "%q is neither k=v nor k:=json", pair)
	}
	if typed, ok := strings.CutSuffix(name, ":"); ok {
		if !json.Valid([]byte(value)) {
			return "", nil, fault.BadInput("bad_input", "the value of %s is no JSON: %s", typed, value).WithHint(`quote it for the shell, for example '%s:=["a","b"]'`, typed)
		}
		if err := onlyOnce("the value of "+typed, []byte(value)); err != nil {
			return "", nil, err
		}
		return typed, json.RawMessage(value), nil
	}
	if !utf8.ValidString(pair) {
		return "", nil, fault.BadInput("bad_input", "%q is not UTF-8", pair)
	}
	text, err := json.Marshal(value)
	return name, text, err
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

// follow shows a run until nobody drives it, and ends the command as the run ended. What happened up to known is not
// printed again. When the leader goes away, this process takes over.
func follow(ctx context.Context, d *deps, c *conn, view api.RunView, known lattice.Seq) error {
	view, err := watchRun(ctx, d, c, view, known)
	if err != nil {
		return err
	}
	return conclude(ctx, d, c, view)
}

// watchRun shows a run until nobody drives it, and returns how it is then.
func watchRun(ctx context.Context, d *deps, c *conn, view api.RunView, known lattice.Seq) (api.RunView, error) {
	p := newProgress(d, view, known)
	defer p.close()
	watch, after := c.WatchOutline, lattice.Seq(0)
	if d.json { // every entry once, and nothing has to be drawn from those before
		watch, after = c.Watch, known
	}
	for {
		err := watch(ctx, view.RunID, after, func(l api.WatchLine) error {
			if l.Entry != nil {
				after = l.Entry.Seq
			}
			if l.View != nil {
				view = *l.View
			}
			return p.line(l)
		})
		switch {
		case ctx.Err() != nil:
			p.close()
			c.stopDriving(view.RunID)
			fmt.Fprintf(d.err, "stopped; the run goes on with: lattice resume %s\n", view.RunID)
			return view, &exitError{code: protocol.ExitCancelled}
		case errors.Is(err, api.ErrGone):
			if err := c.takeOver(ctx, view); err != nil {
				return view, err
			}
		case err != nil:
			return view, err
		default:
			p.close()
			return view, nil
		}
	}
}

// conclude prints the end of a followed run and picks the exit code.
func conclude(ctx context.Context, d *deps, c *conn, v api.RunView) error {
	if d.json {
		if err := d.printJSON(api.RunLine{RunID: v.RunID, Status: v.Status, Outputs: v.Outputs, Error: v.Error, Waits: v.Waits, Problem: v.Problem}); err != nil {
			return err
		}
	}
	switch v.Status {
	case lattice.Succeeded:
		if !d.json {
			fmt.Fprintf(d.out, "%s %s\n", v.RunID, v.Status)
			printPushed(ctx, d, c, v)
			printOutputs(d, v.Outputs)
		}
		return nil
	case lattice.Waiting, lattice.BlockedWaitingForUser, lattice.Blocked:
		for _, w := range v.Waits {
			describeWait(d.err, v, w)
		}
		return &exitError{code: protocol.ExitWaiting}
	case lattice.Canceled:
		fmt.Fprintf(d.err, "%s canceled%s\n", v.RunID, continued(v))
		return &exitError{code: protocol.ExitCancelled}
	case lattice.Failed:
		describeFailure(d, v)
		return &exitError{code: failedExit(v.Error)}
	}
	if v.Problem != nil {
		return fmt.Errorf("the run %s stopped: %w", v.RunID, v.Problem)
	}
	fmt.Fprintf(d.err, "lattice: the run stopped: %s\n  try: lattice resume %s\n", v.Note, v.RunID)
	return &exitError{code: protocol.ExitFailed}
}

// printOutputs shows a run's outputs to a person.
func printOutputs(d *deps, outputs json.RawMessage) {
	var text bytes.Buffer
	if len(outputs) > 2 && string(outputs) != "null" && json.Indent(&text, outputs, "  ", "  ") == nil {
		fmt.Fprintf(sanitizer{d.out}, "  %s\n", text.Bytes())
	}
}

// describeWait tells a person what a run waits for, and the next command.
func describeWait(out io.Writer, v api.RunView, w lattice.Wait) {
	at := w.Node
	if w.Path != "" {
		at += " of " + w.Path
	}
	how := "waits"
	if w.Kind == lattice.WaitBlocked {
		how = "is blocked"
	}
	fmt.Fprintf(out, "%s %s at %s: %s\n", v.RunID, how, at, clean(w.Prompt))
	if w.Legacy() {
		fmt.Fprintln(out, "  the answer begins the flow again, in a run that has it in .lattice/answers.json")
	}
	if w.Kind == lattice.WaitWorld {
		fmt.Fprintf(out, "  inputs: %s\n", clean(string(w.Details)))
	}
	if w.Action != nil {
		for _, line := range bindingLines(w.Action.Binding) {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
	fmt.Fprintf(out, "  next: %s\n", strings.Join(nextCommands(v.RunID, w), "\n    or: "))
}

// describeFailure tells why a run failed and how to look into it.
func describeFailure(d *deps, v api.RunView) {
	var fault protocol.Fault
	if v.Error != nil {
		at := ""
		if v.Error.Node != "" {
			at = " at " + v.Error.Node
		}
		fmt.Fprintf(d.err, "%s failed%s: %s: %s\n", v.RunID, at, v.Error.Kind, clean(v.Error.Message))
		if json.Unmarshal(v.Error.Data, &fault) == nil && fault.Hint != "" {
			fmt.Fprintf(d.err, "   try: %s\n", clean(fault.Hint))
		}
	}
	fmt.Fprintf(d.err, "  look: lattice show %s\n    or: lattice logs %s\n", v.RunID, v.RunID)
	if v.Sprite != "" && fault.Code != session.CodeSpriteGone {
		fmt.Fprintf(d.err, "    or: lattice sprite exec %s -- sh -c 'cd /workspace && ls -la'\n", v.Sprite)
	}
	if len(v.Copies) > 0 {
		fmt.Fprintf(d.err, "  kept: %s of its sprite, such as %s; lattice sprite prune --all removes what failed runs left\n", numbered(len(v.Copies), "copy", "copies"), v.Copies[0])
	}
}

// nextCommands are the commands that answer w.
func nextCommands(run string, w lattice.Wait) []string {
	switch {
	case w.Kind == lattice.WaitUnknown:
		return []string{"lattice answer " + run + " outcome=done|retry|fail"}
	case w.Legacy():
		return answerCommands(run, w)
	case !w.YesOrNo():
		var pairs []string
		for _, name := range sortedKeys(w.Expected) {
			pairs = append(pairs, name+"=<"+w.Expected[name]+">")
		}
		return []string{"lattice answer " + run + " " + strings.Join(pairs, " ")}
	}
	return []string{"lattice approve " + run, "lattice reject " + run + " --comment TEXT"}
}

// answerCommands are those that answer a legacy question, or one that gives up.
func answerCommands(run string, w lattice.Wait) []string {
	const most = 8 // choices that are spelt out
	answer := "lattice answer " + run + " answer="
	var commands []string
	for _, choice := range w.Choices {
		if len(commands) == most {
			commands = append(commands, fmt.Sprintf("%s…   one of %d more; lattice show --json has them", answer, len(w.Choices)-most))
			break
		}
		commands = append(commands, answer+shellWord(clean(choice)))
	}
	if len(w.Choices) == 0 {
		commands = append(commands, answer+"TEXT")
	}
	if w.Default != "" {
		commands = append(commands, answer+"   for the default, "+clean(w.Default))
	}
	return append(commands, "lattice cancel "+run)
}

// shellWord quotes text for a shell where it needs that.
func shellWord(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,-") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// continued says where a run goes on, if it does.
func continued(v api.RunView) string {
	if v.ContinuedIn == "" {
		return ""
	}
	return "; it goes on in " + v.ContinuedIn
}
