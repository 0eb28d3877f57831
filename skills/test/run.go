// Package test holds test.run: it runs the tests of a project and reports what failed and where. Start with Run.
// report.go is the report's form, golang.go reads the events of go test -json, plain.go judges a command by its exit.
//
// What tests print is untrusted: it goes to a capped log file and, in short excerpts, into the report; never to
// stdout. Nothing that the tests start outlives the call.
package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultTimeout = 30 * time.Minute
	maxTimeout     = 24 * time.Hour
	maxLog         = 64 << 20
	maxLine        = 1 << 20
	stopGrace      = 3 * time.Second
)

const (
	frameworkGo      = "go"
	frameworkCommand = "command"
)

// Skills lists the family. Its processes are started by r.
func Skills(r *proc.Reaper) []skill.Skill {
	return []skill.Skill{{Name: "test.run", Run: func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		return run(ctx, c, r)
	}}}
}

type input struct {
	Cwd       string            `json:"cwd"`
	Command   json.RawMessage   `json:"command"`
	Framework string            `json:"framework"`
	Args      []string          `json:"args"`
	TimeoutS  float64           `json:"timeout_s"`
	AllowRed  bool              `json:"allow_red"`
	Env       map[string]string `json:"env"`
}

// framework understands what one kind of test run prints.
type framework interface {
	// line sees each line of stdout; the runs are never concurrent.
	line(text string)
	// fill puts the verdict into the report.
	fill(r *Report, exit proc.Exit, tail []byte)
	// progress is one line for a person.
	progress() string
}

func run(ctx context.Context, c *skill.Call, reaper *proc.Reaper) (skill.Result, error) {
	var in input
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	job, err := prepare(c, in)
	if err != nil {
		return skill.Result{}, err
	}
	log, err := proc.OpenTranscript(c, ".test.log", maxLog)
	if err != nil {
		return skill.Result{}, err
	}
	defer log.Close()
	report := newReport(job, log.Path)
	if err := job.execute(ctx, c, reaper, log, &report); err != nil {
		return skill.Result{}, err
	}
	if err := report.save(c); err != nil {
		return skill.Result{}, err
	}
	return report.verdict(in.AllowRed)
}

// job is one test run, decided.
type job struct {
	dir       string
	framework string
	shown     []string
	argv      []string
	env       []string
	limit     time.Duration
	listable  bool // no filter is in the way of asking for tests that never ran
}

func prepare(c *skill.Call, in input) (job, error) {
	j := job{limit: defaultTimeout, env: slices.Clone(c.Env), framework: in.Framework}
	if in.TimeoutS != 0 {
		j.limit = time.Duration(in.TimeoutS * float64(time.Second))
	}
	if j.limit <= 0 || j.limit > maxTimeout {
		return j, skill.BadInput("/timeout_s", "is not between 0 and %v seconds", maxTimeout.Seconds())
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(in.Env[name], 0) {
			return j, skill.BadInput("/env", "%q is no name of an environment variable, or its value holds a NUL byte", name)
		}
		j.env = append(j.env, name+"="+in.Env[name])
	}
	var err error
	if j.dir, err = proc.WorkDir(c, in.Cwd); err != nil {
		return j, err
	}
	given := len(in.Command) > 0 && string(in.Command) != "null"
	if j.framework == "" {
		if j.framework = frameworkCommand; !given {
			j.framework = detect(j.dir)
		}
	}
	switch {
	case given && j.framework == frameworkCommand:
		if len(in.Args) > 0 {
			return j, skill.BadInput("/args", "are for a framework; put them into command")
		}
		j.shown, j.argv, err = proc.Argv(in.Command, j.env)
	case given:
		return j, skill.BadInput("/command", "goes with framework command, not %s", j.framework)
	case j.framework == frameworkGo:
		j.shown, j.listable = goCommand(in.Args)
		j.argv, err = proc.Resolve(j.shown, j.env)
	case j.framework == "":
		return j, skill.Unsupported("unknown_framework", "no go.mod or go.work in %s: cannot tell how to test it", filepath.Base(j.dir)).
			WithHint(`set "command", such as ["make","test"], or "cwd" to the folder that has go.mod`)
	default:
		return j, skill.Unsupported("unknown_framework", "framework %q cannot be run without a command", j.framework).
			WithHint("known are go, and command together with a command")
	}
	return j, err
}

func detect(dir string) string {
	for _, name := range []string{"go.mod", "go.work"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return frameworkGo
		}
	}
	return ""
}

var errTimeLimit = errors.New("the tests used up their time")

// execute runs the tests and fills the report. Its errors are those of the machinery and of a cancelled call.
func (j job) execute(ctx context.Context, c *skill.Call, reaper *proc.Reaper, log *proc.Transcript, report *Report) error {
	limited, cancel := context.WithTimeoutCause(ctx, j.limit, errTimeLimit)
	defer cancel()
	var f framework = &plain{shown: j.shown}
	if j.framework == frameworkGo {
		f = newGolang(j.dir, moduleOf(c.Root, j.dir))
	}
	tail := &proc.Tail{Limit: 8 << 10}
	lines := &proc.Lines{Max: maxLine, Each: func(line string) {
		f.line(line)
		c.Progress(f.progress(), nil)
	}}
	out := &tee{log: log, tail: tail, lines: lines}
	spec := proc.Spec{
		Argv: j.argv, Dir: j.dir, Env: j.env, Tree: true, Grace: stopGrace,
		Stdout: out, Stderr: out,
	}
	exit, err := reaper.Run(limited, spec)
	if err != nil {
		return fmt.Errorf("run the tests: %w", err)
	}
	lines.Flush()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	report.DurationMS = exit.Duration.Milliseconds()
	report.Exit = exitOf(exit)
	report.Truncated.BytesOmitted = log.Omitted()
	f.fill(report, exit, tail.Bytes())
	if errors.Is(context.Cause(limited), errTimeLimit) && exit.Code != 0 {
		report.Status = StatusTimeout
	} else if g, ok := f.(*golang); ok && j.listable {
		if err := g.countNotRun(limited, reaper, j, report); err != nil {
			c.Warn("not_run_unknown", err.Error())
		}
	}
	report.finish()
	return nil
}

// tee sends the output of the tests to the log and to whoever reads it. Stdout and stderr share it, in order; go test
// prints its events on stdout and little else on stderr, which is no event and is told apart by its form.
type tee struct {
	log   *proc.Transcript
	tail  *proc.Tail
	lines *proc.Lines
}

func (t *tee) Write(p []byte) (int, error) {
	// Neither tail nor lines can fail.
	_, _ = t.tail.Write(p)
	_, _ = t.lines.Write(p)
	return t.log.Write(p)
}

// save writes the report beside the log.
func (r *Report) save(c *skill.Call) error {
	r.ReportPath = proc.TranscriptPath(c, ".test.json")
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("save the test report: %w", err)
	}
	return c.Root.WriteFile(r.ReportPath, append(data, '\n'), 0o600)
}

// verdict turns the report into the outcome of the call (DESIGN 13).
func (r *Report) verdict(allowRed bool) (skill.Result, error) {
	switch {
	case r.Status == StatusPassed, r.Status == StatusFailed && allowRed:
		return skill.Result{Data: r}, nil
	case r.Status == StatusFailed:
		return skill.Result{}, skill.Failed("tests_failed", "%s", r.summary()).
			WithHint("the whole output is in %s", r.LogPath).WithDetails(r)
	case r.Status == StatusTimeout:
		e := skill.Timeout("the tests did not end in time").WithDetails(r)
		e.Retryable = false
		return skill.Result{}, e
	case r.Status == StatusNoTests:
		return skill.Result{}, skill.Failed("no_tests", "there are no tests to run").WithDetails(r)
	}
	return skill.Result{}, (&skill.Error{Code: "test_error", Exit: protocol.ExitFailed, Message: "the tests could not be run: " + r.summary()}).
		WithHint("the whole output is in %s", r.LogPath).WithDetails(r)
}
