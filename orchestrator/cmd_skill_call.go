package main

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
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

type skillCallOptions struct {
	fresh                spriteOptions
	input, sprite, image string
	allow, skills        []string
	keep                 bool
}

func newSkillCallCmd(d *deps) *cobra.Command {
	var o skillCallOptions
	cmd := &cobra.Command{
		Use:   "call NAME [k=v | k:=json …]",
		Short: "Call one skill, in a throw-away sprite",
		Long: `Call one skill and print its result, one JSON object, on standard output; what it says meanwhile goes to standard error.
The exit code is the skill's. The sprite is made for the call and removed after it, also after Ctrl-C, unless --keep or
--sprite say otherwise. A call outside of a run cannot be resumed: a skill that comes to wait for a person ends with 75.
` + exitCodes,
		Example: `  lattice skill call fs.write path=a content=hi --sprite box
  lattice skill call git.clone url=https://github.com/golang/example depth:=1
  lattice skill call exec.run 'argv:=["cat","/etc/os-release"]' --image ./rootfs.tar
  lattice skill call test.run --sprite box --input '{"cwd":"repo"}'`,
		Args: args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(list) == 0 {
				return completeSkills(c, list, "")
			}
			return inputWords(list[0]), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(c *cobra.Command, list []string) error {
			if c.Flags().Changed("allow") && len(o.allow) == 0 {
				return allowsNothing()
			}
			return runSkillCall(c.Context(), d, o, list[0], list[1:])
		},
	}
	o.fresh.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.input, "input", "", "`JSON` object with the skill's inputs, or @FILE; @- is standard input")
	f.StringVar(&o.sprite, "sprite", "", "call it in this sprite, where its own skills are found, too")
	f.StringSliceVar(&o.allow, "allow", nil, "permissions that the call may have (default: as for lattice run, all but git:push, credential:fetch, net)")
	f.BoolVar(&o.keep, "keep", false, "keep the sprite that was made for the call, and print its name")
	addImageFlag(d, cmd, &o.image)
	addSkillFlag(cmd, &o.skills)
	_ = cmd.RegisterFlagCompletionFunc("allow", completePermissions)
	_ = cmd.RegisterFlagCompletionFunc("sprite", completeSprites(d))
	return cmd
}

func runSkillCall(ctx context.Context, d *deps, o skillCallOptions, name string, pairs []string) error {
	if err := cmp.Or(imageOfSprite(o.image, o.sprite), o.fresh.check(d, o.sprite)); err != nil {
		return err
	}
	input, err := d.callInput(ctx, o.input, pairs)
	if err != nil {
		return err
	}
	if len(o.allow) == 0 {
		o.allow = d.settings.Run.Allow
	}
	if len(o.allow) == 0 {
		o.allow = ir.DefaultGrants()
	}
	local, err := d.localSkills(o.skills)
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
	return d.withSprites(ctx, func(ctx context.Context, c *sprites.Client) error {
		if i >= 0 && (o.sprite == "" || local[i].Source == "builtin") {
			return d.callIn(ctx, c, o, local[i], input)
		}
		skill, err := dropInSkill(ctx, c, o.sprite, name)
		if err != nil {
			return err
		}
		if err := checkCall(skill.Skill, input, o.allow); err != nil {
			return err
		}
		return d.callIn(ctx, c, o, skill, input)
	})
}

// allowsNothing refuses an empty --allow: it would count as not said at all, and grant the default, which is nearly everything.
func allowsNothing() error {
	return fault.BadInput("permission_missing", "--allow names no permission").WithHint("name what the skills may do, such as --allow fs:read; without --allow they get the default (--help)")
}

// callInput merges --input with pairs; pairs win.
func (d *deps) callInput(ctx context.Context, given string, pairs []string) (json.RawMessage, error) {
	text := []byte(given)
	if file, ok := strings.CutPrefix(given, "@"); ok {
		var err error
		if text, err = d.readInputFile(ctx, file); err != nil {
			return nil, err
		}
	}
	in := map[string]json.RawMessage{}
	if err := onlyOnce("--input", text); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &in); err != nil {
			return nil, fault.BadInput("bad_input", "--input is no JSON object: %v", err).WithHint(`--input '{"path":"a"}', or path=a behind the skill's name`)
		}
	}
	for _, pair := range pairs {
		name, value, err := parsePair(pair)
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
			lines = append(lines, clean(strings.TrimPrefix(p.Pointer, "/")+" "+p.Message))
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
		return fault.Denied("permission_denied", "%s needs %s, which the call is not granted", skill.Name, clean(strings.Join(missing, ", "))).WithHint("--allow %s", strings.Join(needed, ","))
	}
	return nil
}

// callIn makes the call in the sprite that was named, or in one that lives as long as the call.
func (d *deps) callIn(ctx context.Context, c *sprites.Client, o skillCallOptions, skill skillIn, input json.RawMessage) error {
	sprite, done, err := d.spriteFor(ctx, c, o)
	if err != nil {
		return err
	}
	defer done()
	call := oneCall{d: d, skill: skill.Name}
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
		Stderr:                sanitizer{d.err},
		MaxRunAfterDisconnect: 5 * time.Second, // nobody comes back for it
	})
	switch {
	case ctx.Err() != nil:
		return &exitError{code: protocol.ExitCancelled}
	case limited.Err() != nil:
		return fault.Timeout("timeout", "%s did not end within %g s, the timeout_s of its manifest", skill.Name, skill.TimeoutS).WithHint("raise timeout_s in its skill.json")
	case err != nil:
		return spriteProblem(err)
	}
	return call.conclude(exit)
}

// spriteFor is the sprite that was named, or one that is made for the occasion and removed by done, unless it is kept.
func (d *deps) spriteFor(ctx context.Context, c *sprites.Client, o skillCallOptions) (sprite string, done func(), err error) {
	sprite, done = o.sprite, func() {}
	var sent []string // folders of skills that a remote sprite is sent
	if sprite == "" {
		if sent, err = d.ownSkills(o.skills, ""); err != nil {
			return "", done, err
		}
		start, err := d.startImage(ctx, c, o.image)
		if err != nil {
			return "", done, err
		}
		sprite = "call-" + strings.ToLower(rand.Text()[:12])
		release := func() {}
		if !o.keep {
			d.removeLeft(ctx, c)
			if release, err = d.claim(sprite); err != nil {
				return "", done, err
			}
		}
		create := sprites.Create{Name: sprite, Labels: []string{"lattice-call"}, Skills: d.shownSkills(sent), Image: start, Spritekit: d.shownSpritekit(o.fresh)}
		create.Network, create.HostPorts = d.reach(ctx, o.fresh.network)
		if _, err := c.Create(ctx, create); err != nil {
			release()
			return "", done, spriteProblem(err)
		}
		done = func() { d.dismiss(ctx, c, o, sprite); release() }
	}
	if err = d.equip(ctx, c, o, sprite); err == nil {
		err = d.sendSkills(ctx, c, sprite, sent)
	}
	if err != nil {
		done()
		return "", func() {}, spriteProblem(err)
	}
	return sprite, done, nil
}

// dismiss removes a sprite that was made for the occasion, unless it is kept.
func (d *deps) dismiss(ctx context.Context, c *sprites.Client, o skillCallOptions, sprite string) {
	if o.keep {
		fmt.Fprintf(d.err, "kept: lattice sprite exec %s -- sh; lattice sprite rm %s\n", sprite, sprite)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := c.Delete(ctx, sprite); err != nil && !errors.Is(err, sprites.ErrNotFound) {
		fmt.Fprintf(d.err, "lattice: %v\n  try: lattice sprite rm %s\n", err, sprite)
	}
}

// equip sees to the skills of a remote sprite; the embedded host does so itself.
func (d *deps) equip(ctx context.Context, c *sprites.Client, o skillCallOptions, sprite string) error {
	if d.remoteSprites() == nil {
		return nil
	}
	return d.equipment(c, o.fresh.spritekit).Equip(ctx, sprite)
}

// equipment is what remote sprites are given, with a spritekit as told, beside lattice or on PATH.
func (d *deps) equipment(c *sprites.Client, spritekit string) leader.Equipment {
	return leader.Equipment{
		Client: c,
		Find: func(arch string) (string, error) {
			return leader.FindSpritekitFor(d.spritekit(spritekit), d.exe, d.getenv("PATH"), arch)
		},
		Warn: func(message string) { fmt.Fprintf(d.err, "lattice: %s\n", message) },
	}
}

// timeoutGrace is how long a skill has to end by itself once its time is used up.
const timeoutGrace = 2 * time.Second

// waitingGrace is how long a skill may go on after it said that it waits (DESIGN 22).
const waitingGrace = 5 * time.Second

// oneCall follows the stdout of one call.
type oneCall struct {
	d       *deps
	skill   string
	waiting bool
	held    string // the last line that is no event, which may be the result
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

// record shows one line of stdout. Lines that are no event are shown when another one follows: the last is the result.
func (k *oneCall) record(rec protocol.Record) {
	switch rec.Kind {
	case protocol.KindEvent:
		payload, err := rec.Event.Open()
		if err != nil || len(rec.Problems) > 0 {
			fmt.Fprintf(k.d.err, "%s (not as the protocol wants it)\n", clean(string(rec.Event.Type)))
			return
		}
		_, waits := payload.(protocol.Waiting)
		k.waiting = k.waiting || waits
		fmt.Fprintf(k.d.err, "%s %s\n", clean(string(rec.Event.Type)), clean(payloadText(payload)))
	case protocol.KindOutput:
		k.flush()
		k.held = rec.Text
	case protocol.KindWarning:
		fmt.Fprintf(k.d.err, "lattice: warning: %s in line %d of the output\n", clean(rec.Code), rec.Line)
	}
}

func (k *oneCall) flush() {
	if k.held != "" {
		fmt.Fprintln(sanitizer{k.d.err}, k.held)
		k.held = ""
	}
}

// conclude prints the result and ends with the skill's exit code.
func (k *oneCall) conclude(exit int) error {
	result, ok := protocol.DecodeResult([]byte(k.held))
	if !ok {
		k.flush()
		if exit == 126 || exit == 127 {
			return fault.NotFound("skill_missing", "the sprite has no skill %s that can be run (exit code %d)", k.skill, exit).WithHint("lattice skill ls --sprite NAME")
		}
		return &exitError{code: max(exit, protocol.ExitFailed), err: fmt.Errorf("%s ended with exit code %d and without a result", k.skill, exit)}
	}
	text := []byte(harmless(strings.TrimSpace(k.held)))
	var err error
	if k.d.json {
		_, err = fmt.Fprintf(k.d.out, "%s\n", text)
	} else {
		err = k.d.printIndented(json.RawMessage(text))
	}
	switch {
	case err != nil:
		return err
	case result.Waiting != nil:
		fmt.Fprintf(k.d.err, "%s waits: %s\n  A call outside of a run cannot be resumed.\n  try: lattice flow new '%s …' | lattice run -\n", k.skill, clean(result.Waiting.Reason), k.skill)
	case result.OK == (exit != 0):
		fmt.Fprintf(k.d.err, "lattice: %s says ok:%t and ended with exit code %d\n", k.skill, result.OK, exit)
		exit = max(exit, protocol.ExitFailed)
	}
	if exit != 0 {
		return &exitError{code: exit}
	}
	return nil
}

// acts reports whether a terminal may act on a character; line ends and tabs are wanted.
func acts(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// harmless writes what a terminal would act on as JSON's own escapes; the value stays the same.
func harmless(text string) string {
	if !strings.ContainsFunc(text, acts) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if acts(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
