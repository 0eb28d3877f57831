package skill

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

type callOptions struct {
	fresh                equip.Options
	input, sprite, image string
	allow, skills        []string
	keep                 bool
}

func newCallCmd(env *setup.Env) *cobra.Command {
	var o callOptions
	cmd := &cobra.Command{
		Use:   "call NAME [k=v | k:=json …]",
		Short: "Call one skill in a temporary sprite",
		Long: `Call one skill. Its result, one JSON object, goes to standard output, and the rest of its output to standard error. The exit
code is the skill's. The sprite is created for the call and removed afterwards, even after Ctrl-C, unless you give --keep or
--sprite. A call outside of a run cannot be resumed: if the skill has to wait for a person, the command ends with 75.
` + cli.ExitCodes,
		Example: `  lattice skill call fs.write path=a content=hi --sprite box
  lattice skill call git.clone url=https://github.com/golang/example depth:=1
  lattice skill call exec.run 'argv:=["cat","/etc/os-release"]' --image ./rootfs.tar
  lattice skill call test.run --sprite box --input '{"cwd":"repo"}'`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(list) == 0 {
				return completeSkills(c, list, "")
			}
			return sources.InputWords(list[0]), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(c *cobra.Command, list []string) error {
			if c.Flags().Changed("allow") && len(o.allow) == 0 {
				return equip.RefuseNoPermission()
			}
			return runCall(c.Context(), env, o, list[0], list[1:])
		},
	}
	o.fresh.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.input, "input", "", "`JSON` object with the skill's inputs, or @FILE; @- is standard input")
	f.StringVar(&o.sprite, "sprite", "", "call the skill in this sprite, which may have skills of its own")
	f.StringSliceVar(&o.allow, "allow", nil, "permissions that the call may have (default, as in lattice run: all but git:push, credential:fetch, net)")
	f.BoolVar(&o.keep, "keep", false, "keep the sprite that was created for the call, and print its name")
	equip.AddImageFlag(env, cmd, &o.image)
	equip.AddSkillFlag(cmd, &o.skills)
	_ = cmd.RegisterFlagCompletionFunc("allow", complete.Permissions)
	_ = cmd.RegisterFlagCompletionFunc("sprite", complete.Sprites(env))
	return cmd
}

func runCall(ctx context.Context, env *setup.Env, o callOptions, name string, pairs []string) error {
	if err := cmp.Or(equip.ImageOfSprite(o.image, o.sprite), o.fresh.Check(env, o.sprite)); err != nil {
		return err
	}
	input, err := readCallInput(ctx, env.Console, o.input, pairs)
	if err != nil {
		return err
	}
	if len(o.allow) == 0 {
		o.allow = env.Settings.Run.Allow
	}
	if len(o.allow) == 0 {
		o.allow = ir.DefaultGrants()
	}
	local, err := readLocalSkills(env, o.skills)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(local, func(s skillIn) bool { return s.Name == name })
	if i < 0 && o.sprite == "" {
		return noSkill(name, local)
	}
	if i >= 0 {
		if err := checkCall(local[i].Skill, input, o.allow); err != nil {
			return err
		}
	}
	return connect.WithSprites(ctx, env, func(ctx context.Context, c *sprites.Client) error {
		if i >= 0 && (o.sprite == "" || local[i].Source == "builtin") {
			return callInSprite(ctx, env, c, o, local[i], input)
		}
		skill, err := dropInSkill(ctx, c, o.sprite, name)
		if err != nil {
			return err
		}
		if err := checkCall(skill.Skill, input, o.allow); err != nil {
			return err
		}
		return callInSprite(ctx, env, c, o, skill, input)
	})
}

// readCallInput merges --input with pairs; pairs win.
func readCallInput(ctx context.Context, console *cli.Console, given string, pairs []string) (json.RawMessage, error) {
	text := []byte(given)
	if file, ok := strings.CutPrefix(given, "@"); ok {
		var err error
		if text, err = console.ReadInputFile(ctx, file); err != nil {
			return nil, err
		}
	}
	in := map[string]json.RawMessage{}
	if err := cli.OnlyOnce("--input", text); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &in); err != nil {
			return nil, fault.BadInput("bad_input", "--input is not a JSON object: %v", err).WithHint(`--input '{"path":"a"}', or path=a after the skill's name`)
		}
	}
	for _, pair := range pairs {
		name, value, err := cli.ParsePair(pair)
		if err != nil {
			return nil, err
		}
		in[name] = value
	}
	return json.Marshal(in)
}

// checkCall refuses a call that the skill would refuse, before a sprite is made for it.
func checkCall(skill manifests.Skill, input json.RawMessage, grants []string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(input, &members); err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	if problems := skill.CheckInput(members); len(problems) > 0 {
		var lines []string
		for _, p := range problems {
			lines = append(lines, cli.Clean(strings.TrimPrefix(p.Pointer, "/")+" "+p.Message))
		}
		return fault.BadInput("bad_input", "%s refuses this input:\n  %s", skill.Name, strings.Join(lines, "\n  ")).WithHint("lattice skill show %s", skill.Name)
	}
	for _, g := range grants {
		if g != "*" && !slices.Contains(manifests.Permissions(), g) {
			return fault.BadInput("permission_unknown", "there is no permission %q", g).WithHint("known: %s *", strings.Join(manifests.Permissions(), " "))
		}
	}
	_, needed := skill.Effective(members)
	missing := slices.DeleteFunc(slices.Clone(needed), func(p string) bool { return slices.Contains(grants, p) || slices.Contains(grants, "*") })
	if len(missing) > 0 {
		return fault.Denied("permission_denied", "%s needs the permission %s, which the call does not have", skill.Name, cli.Clean(strings.Join(missing, ", "))).WithHint("--allow %s", strings.Join(needed, ","))
	}
	return nil
}

// callInSprite makes the call in the sprite that was named, or in one that lives as long as the call.
func callInSprite(ctx context.Context, env *setup.Env, c *sprites.Client, o callOptions, skill skillIn, input json.RawMessage) error {
	sprite, done, err := chooseSprite(ctx, env, c, o)
	if err != nil {
		return err
	}
	defer done()
	call := oneCall{console: env.Console, skill: skill.Name}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if skill.TimeoutS > 0 { // the runtime of a built-in or served skill keeps it, too, and has words of its own
		limited, cancel = context.WithTimeout(ctx, time.Duration(skill.TimeoutS*float64(time.Second))+timeoutGrace)
	}
	defer cancel()
	exit, err := call.run(limited, c, sprite, sprites.Exec{
		Cmd:                   skill.cmd,
		Env:                   []string{"LATTICE_SPRITE_ID=" + sprite, "LATTICE_WORK_ITEM_ID=" + sprite, "LATTICE_PERMISSIONS=" + strings.Join(o.allow, ",")},
		Dir:                   "/workspace",
		Stdin:                 bytes.NewReader(input),
		Stderr:                cli.Sanitize(env.Err),
		MaxRunAfterDisconnect: 5 * time.Second, // no one will attach again
	})
	switch {
	case ctx.Err() != nil:
		return &cli.ExitError{Code: protocol.ExitCancelled}
	case limited.Err() != nil:
		return fault.Timeout("timeout", "%s did not end within %g s, the timeout_s of its manifest", skill.Name, skill.TimeoutS).WithHint("raise timeout_s in its skill.json")
	case err != nil:
		return setup.ExplainSprite(err)
	}
	return call.conclude(exit)
}

// chooseSprite is the sprite that was named, or one that is made for the occasion and removed by done, unless it is kept.
func chooseSprite(ctx context.Context, env *setup.Env, c *sprites.Client, o callOptions) (sprite string, done func(), err error) {
	sprite, done = o.sprite, func() {}
	var sent []string // folders of skills that a remote sprite is sent
	if sprite == "" {
		if sent, err = equip.FindSkillFolders(env, o.skills, ""); err != nil {
			return "", done, err
		}
		start, err := equip.FindStartImage(ctx, env, c, o.image)
		if err != nil {
			return "", done, err
		}
		sprite = "call-" + strings.ToLower(rand.Text()[:12])
		release := func() {}
		if !o.keep {
			removeLeftSprites(ctx, env, c)
			if release, err = claimSprite(env, sprite); err != nil {
				return "", done, err
			}
		}
		create := sprites.Create{Name: sprite, Labels: []string{"lattice-call"}, Skills: equip.SelectShownSkills(env, sent), Image: start, Spritekit: equip.SelectShownSpritekit(env, o.fresh)}
		create.Network, create.HostPorts = equip.ChooseReach(ctx, env, nil, o.fresh.Network)
		if _, err := c.Create(ctx, create); err != nil {
			release()
			return "", done, setup.ExplainSprite(err)
		}
		done = func() { removeOwnSprite(ctx, env.Console, c, o, sprite); release() }
	}
	if err = equipRemote(ctx, env, c, o, sprite); err == nil {
		err = equip.SendSkills(ctx, env, c, sprite, sent)
	}
	if err != nil {
		done()
		return "", func() {}, setup.ExplainSprite(err)
	}
	return sprite, done, nil
}

// removeOwnSprite removes a sprite that was made for the occasion, unless it is kept.
func removeOwnSprite(ctx context.Context, console *cli.Console, c *sprites.Client, o callOptions, sprite string) {
	if o.keep {
		fmt.Fprintf(console.Err, "kept: lattice sprite exec %s -- sh; lattice sprite rm %s\n", sprite, sprite)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := c.Delete(ctx, sprite); err != nil && !errors.Is(err, sprites.ErrNotFound) {
		fmt.Fprintf(console.Err, "lattice: %v\n  try: lattice sprite rm %s\n", err, sprite)
	}
}

// equipRemote sees to the skills of a remote sprite; the embedded host does so itself.
func equipRemote(ctx context.Context, env *setup.Env, c *sprites.Client, o callOptions, sprite string) error {
	if env.RemoteSprites() == nil {
		return nil
	}
	return equip.NewEquipment(env, c, o.fresh.Spritekit).Equip(ctx, sprite)
}

// timeoutGrace is how long a skill has to end by itself once its time is used up.
const timeoutGrace = 2 * time.Second

// waitingGrace is how long a skill may go on after it said that it waits (DESIGN 22).
const waitingGrace = 5 * time.Second

// oneCall follows the stdout of one call.
type oneCall struct {
	console *cli.Console
	skill   string
	waiting bool
	held    string // the last line that is not an event, which may be the result
}

// run executes the skill and shows its events as they come. A skill that is given up is stopped.
func (k *oneCall) run(parent context.Context, c *sprites.Client, sprite string, e sprites.Exec) (exit int, err error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	stdout, feed := io.Pipe()
	e.Stdout = feed
	var group errgroup.Group
	group.Go(func() error {
		code, err := c.Exec(ctx, sprite, e)
		feed.CloseWithError(io.EOF)
		exit = code
		return err
	})
	var grace *time.Timer
	for scanner := protocol.NewScanner(stdout); ; {
		rec, err := scanner.Next()
		if err != nil {
			stdout.CloseWithError(err)
			break
		}
		k.record(rec)
		if k.waiting && grace == nil {
			grace = time.AfterFunc(waitingGrace, cancel)
		}
	}
	err = group.Wait()
	if grace != nil {
		grace.Stop()
	}
	var lost *sprites.LostError
	if ctx.Err() != nil && errors.As(err, &lost) && lost.Session != "" {
		end, stop := context.WithTimeout(context.WithoutCancel(parent), 15*time.Second)
		defer stop()
		if kill := c.Kill(end, sprite, lost.Session, "TERM"); kill != nil && !errors.Is(kill, sprites.ErrNotFound) {
			return exit, errors.Join(err, kill)
		}
		if parent.Err() == nil { // it overstayed its WAITING
			return protocol.ExitWaiting, nil
		}
	}
	return exit, err
}

// record shows one line of stdout. A line that is not an event is shown when another one follows: the last is the result.
func (k *oneCall) record(rec protocol.Record) {
	switch rec.Kind {
	case protocol.KindEvent:
		payload, err := rec.Event.Open()
		if err != nil || len(rec.Problems) > 0 {
			fmt.Fprintf(k.console.Err, "%s (violates the protocol)\n", cli.Clean(string(rec.Event.Type)))
			return
		}
		_, waits := payload.(protocol.Waiting)
		k.waiting = k.waiting || waits
		fmt.Fprintf(k.console.Err, "%s %s\n", cli.Clean(string(rec.Event.Type)), cli.Clean(timeline.DescribePayload(payload)))
	case protocol.KindOutput:
		k.flush()
		k.held = rec.Text
	case protocol.KindWarning:
		fmt.Fprintf(k.console.Err, "lattice: warning: %s in line %d of the output\n", cli.Clean(rec.Code), rec.Line)
	}
}

func (k *oneCall) flush() {
	if k.held != "" {
		fmt.Fprintln(cli.Sanitize(k.console.Err), k.held)
		k.held = ""
	}
}

// conclude prints the result and ends with the skill's exit code.
func (k *oneCall) conclude(exit int) error {
	result, ok := protocol.DecodeResult([]byte(k.held))
	if !ok {
		k.flush()
		if exit == 126 || exit == 127 {
			return fault.NotFound("skill_missing", "the sprite cannot run a skill %s (exit code %d)", k.skill, exit).WithHint("lattice skill ls --sprite NAME")
		}
		return &cli.ExitError{Code: max(exit, protocol.ExitFailed), Err: fmt.Errorf("%s ended with exit code %d and without a result", k.skill, exit)}
	}
	text := []byte(cli.Harmless(strings.TrimSpace(k.held)))
	var err error
	if k.console.JSON {
		_, err = fmt.Fprintf(k.console.Out, "%s\n", text)
	} else {
		err = k.console.PrintIndented(json.RawMessage(text))
	}
	switch {
	case err != nil:
		return err
	case result.Waiting != nil:
		fmt.Fprintf(k.console.Err, "%s waits: %s\n  A call outside of a run cannot be resumed.\n  try: lattice flow new '%s …' | lattice run -\n", k.skill, cli.Clean(result.Waiting.Reason), k.skill)
	case result.OK == (exit != 0):
		fmt.Fprintf(k.console.Err, "lattice: %s says ok:%t and ended with exit code %d\n", k.skill, result.OK, exit)
		exit = max(exit, protocol.ExitFailed)
	}
	if exit != 0 {
		return &cli.ExitError{Code: exit}
	}
	return nil
}
