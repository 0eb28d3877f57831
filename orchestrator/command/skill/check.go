package skill

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/dropin"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

type testOptions struct {
	callOptions
	slow string
}

func newTestCmd(env *setup.Env) *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test DIR|NAME",
		Short: "Test a skill against the contract of skills, in a temporary sprite",
		Long: `Test a skill against the contract of skills, and say for each promise whether it is kept, broken or not claimed: the result
line, events and outbox, a repeated call, unknown inputs, malformed input, permissions, SIGTERM. DIR is the folder of a
skill; NAME is a built-in skill or, with --sprite, a skill of that sprite. It is called with the first example of its
manifest, or with --input, in a workspace with the files of the folder's testdata/workspace. The command ends with 1 if a
promise is broken. With --json: {"ok":…,"skill":…,"checks":[{"check","status","findings"}]}.
` + cli.ExitCodes,
		Example: "  lattice skill test contacts.search/\n  lattice skill test contacts.search/ --input '{\"name\":\"Ada\"}' --slow '{\"name\":\"*\"}'",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE:    func(c *cobra.Command, list []string) error { return runTest(c.Context(), env, o, list[0]) },
	}
	o.fresh.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.input, "input", "", "`JSON` object with inputs for which the skill succeeds (default: the first example of its manifest)")
	f.StringVar(&o.slow, "slow", "", "`JSON` object with inputs that keep the skill busy until it is stopped; checks that it can be canceled")
	f.StringVar(&o.sprite, "sprite", "", "test a skill of this sprite, inside of it")
	equip.AddImageFlag(env, cmd, &o.image)
	equip.AddSkillFlag(cmd, &o.skills)
	_ = cmd.RegisterFlagCompletionFunc("sprite", complete.Sprites(env))
	return cmd
}

// checkReport is a line of "spritekit check --json".
type checkReport struct {
	Check    string   `json:"check"`
	Status   string   `json:"status"`
	Findings []string `json:"findings,omitempty"`
}

func runTest(ctx context.Context, env *setup.Env, o testOptions, arg string) error {
	if err := cmp.Or(equip.ImageOfSprite(o.image, o.sprite), o.fresh.Check(env, o.sprite)); err != nil {
		return err
	}
	name := arg
	if _, builtin := manifests.Lookup(arg); !builtin && o.sprite == "" {
		dir := arg
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			dir = filepath.Dir(arg) // next to its manifest
		}
		s, err := dropin.Read(dir)
		if err != nil {
			return err
		}
		name, o.skills = s.Name, append(o.skills, s.Dir)
	}
	for flag, text := range map[string]string{"--input": o.input, "--slow": o.slow} {
		var object map[string]json.RawMessage
		if text != "" && (json.Unmarshal([]byte(text), &object) != nil || object == nil) {
			return fault.BadInput("bad_input", "%s is not a JSON object", flag).WithHint(`%s '{"path":"a"}'`, flag)
		}
	}
	return connect.WithSprites(ctx, env, func(ctx context.Context, c *sprites.Client) error {
		sprite, done, err := chooseSprite(ctx, env, c, o.callOptions)
		if err != nil {
			return err
		}
		defer done()
		return testSkill(ctx, env.Console, c, sprite, name, o)
	})
}

// testSkill runs the checks in a sprite and shows each as it is known.
func testSkill(ctx context.Context, console *cli.Console, c *sprites.Client, sprite, name string, o testOptions) error {
	cmd := []string{skillsDir + "/spritekit", "check", name, "--json"}
	if o.input != "" {
		cmd = append(cmd, "--input", o.input)
	}
	if o.slow != "" {
		cmd = append(cmd, "--slow", o.slow)
	}
	var stderr bytes.Buffer
	stdout := &reportWriter{show: func(r checkReport) error { return showCheck(console, r) }}
	exit, err := c.Exec(ctx, sprite, sprites.Exec{Cmd: cmd, Dir: "/workspace", Stdout: stdout, Stderr: &stderr, MaxRunAfterDisconnect: 5 * time.Second})
	switch {
	case ctx.Err() != nil:
		return &cli.ExitError{Code: protocol.ExitCancelled}
	case err != nil:
		return setup.ExplainSprite(err)
	case stdout.err != nil || len(stdout.reports) == 0:
		return fault.New(max(exit, 1), "test_failed", "%s could not be tested: %s", name, cli.Clean(strings.TrimSpace(stderr.String()))).WithHint("check its folder with lattice skill validate")
	}
	broken := 0
	for _, r := range stdout.reports {
		if r.Status == "broken" {
			broken++
		}
	}
	if console.JSON {
		if err := console.PrintJSON(map[string]any{"ok": broken == 0, "skill": name, "checks": stdout.reports}); err != nil {
			return err
		}
	} else if broken == 0 {
		if _, err := fmt.Fprintln(console.Out, "ok"); err != nil {
			return err
		}
	}
	if broken > 0 {
		return &cli.ExitError{Code: protocol.ExitFailed}
	}
	return nil
}

func showCheck(console *cli.Console, r checkReport) error {
	if console.JSON {
		return nil
	}
	text := fmt.Sprintf("%-8s %s\n", cli.Clean(r.Status), cli.Clean(r.Check))
	for _, finding := range r.Findings {
		text += fmt.Sprintf("         %s\n", cli.Clean(finding))
	}
	_, err := fmt.Fprint(console.Out, text)
	return err
}

// reportWriter reads reports, a line each, as they come.
type reportWriter struct {
	show    func(checkReport) error
	rest    []byte
	reports []checkReport
	err     error
}

// maxReport bounds a report, in bytes.
const maxReport = 1 << 20

func (w *reportWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for w.err == nil {
		n, line, _ := bufio.ScanLines(w.rest, false)
		if n == 0 {
			break
		}
		var r checkReport
		if w.err = json.Unmarshal(line, &r); w.err == nil {
			w.reports = append(w.reports, r)
			w.err = w.show(r)
		}
		w.rest = w.rest[n:]
	}
	if len(w.rest) > maxReport {
		w.err = errors.New("a report is too long")
	}
	if w.err != nil {
		w.rest = nil
	}
	return len(b), nil
}
