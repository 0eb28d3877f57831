package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/spritekit/skill"
)

const maxRerun = 200 // failed tests that are worth running again one by one

var errTimeLimit = errors.New("the tests used up their time")

// execution is a job under way.
type execution struct {
	call   *skill.Call
	reaper *proc.Reaper
	job    *job
	log    *proc.Transcript
	began  time.Time
	set    *results.Set
}

// outcome is how one command ended.
type outcome struct {
	exit    proc.Exit
	tail    string
	problem string // why its reports cannot be believed, "" when they can
}

func (p *plan) commandLine() []string {
	if len(p.argv) > 0 {
		return p.argv
	}
	return p.shown
}

// isPlain reports whether the exit code is all there is.
func (p *plan) isPlain() bool { return p.stream == nil && p.format == "" }

// runAll runs the tests, then the failed ones again as often as wanted. Its errors are those of the machinery and of a
// cancelled call.
func (x *execution) runAll(ctx context.Context) (Report, error) {
	limited, cancel := context.WithTimeoutCause(ctx, x.job.limit, errTimeLimit)
	defer cancel()
	x.began = time.Now()
	x.set = &results.Set{}
	first, err := x.runPlan(limited, ctx, &x.job.plan, x.set)
	if err != nil {
		return Report{}, err
	}
	late := errors.Is(context.Cause(limited), errTimeLimit) && first.exit.Code != 0
	recovered := 0
	if !late {
		if recovered, err = x.rerunFailed(limited, ctx); err != nil {
			return Report{}, err
		}
	}
	return x.newReport(first, late, recovered), nil
}

// rerunFailed runs failed tests again until each has passed once or no runs are left. It returns how many have passed.
func (x *execution) rerunFailed(limited, ctx context.Context) (recovered int, err error) {
	again := x.job.runner.again
	if x.job.reruns == 0 {
		return 0, nil
	}
	for range x.job.reruns {
		var failed []results.Case
		for _, c := range x.set.Failing {
			if c.Status != results.Flaky && !c.Package {
				failed = append(failed, c)
			}
		}
		switch {
		case len(failed) == 0 || limited.Err() != nil:
			return recovered, nil
		case again == nil:
			x.call.Warn("rerun_unsupported", "framework "+x.job.framework+" has no way to run single tests again")
			return 0, nil
		case len(failed)+x.set.Omitted > maxRerun:
			x.call.Warn("rerun_skipped", fmt.Sprintf("%d tests failed: that is no flakiness, nothing was run again", len(failed)+x.set.Omitted))
			return recovered, nil
		}
		plans, err := again(x.job.project, failed)
		if err != nil {
			return recovered, err
		}
		for i := range plans {
			set := &results.Set{}
			if _, err := x.runPlan(limited, ctx, &plans[i], set); err != nil {
				return recovered, err
			}
			recovered += x.set.Recovered(set)
		}
	}
	return recovered, nil
}

// runPlan runs one command and reads its verdicts into set. limited bounds its time; ctx tells a cancelled call.
func (x *execution) runPlan(limited, ctx context.Context, one *plan, set *results.Set) (outcome, error) {
	p := x.job.project
	set.Adjust = func(c *results.Case) {
		if one.adjust != nil {
			one.adjust(c)
		}
		p.cleanCase(c)
	}
	for _, name := range one.reports {
		if strings.HasPrefix(name, p.scratch+"/") {
			if err := p.root.MkdirAll(filepath.Dir(name)); err != nil {
				return outcome{}, err
			}
		}
	}
	before := p.findReports(one.reports)
	env := append(p.env[:len(p.env):len(p.env)], one.env...)
	argv, err := proc.Resolve(one.commandLine(), env)
	if err != nil {
		return outcome{}, err
	}
	watch := newWatch(one, set)
	tail := &proc.Tail{Limit: 8 << 10}
	lines := &proc.Lines{Max: maxLine, Each: func(line string) {
		watch.handleLine(line)
		x.call.Progress(watch.lastText(), nil)
	}}
	out := io.MultiWriter(tail, lines, x.log) // stdout and stderr share it, in order
	exit, err := x.reaper.Run(limited, proc.Spec{Argv: argv, Dir: p.dir, Env: env, Tree: true, Grace: stopGrace, Stdout: out, Stderr: out})
	if err != nil {
		return outcome{}, fmt.Errorf("run the tests: %w", err)
	}
	lines.Flush()
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	if watch.stream != nil {
		watch.stream.Done()
	}
	end := outcome{exit: exit, tail: string(tail.Bytes())}
	switch {
	case one.isPlain():
		addPlain(set, one, end)
	case one.format != "":
		end.problem = p.readReports(one, before, set)
	}
	if set.Setup != "" && exit.Code != 0 && end.problem == "" {
		end.problem = set.Setup
	}
	if g, ok := watch.stream.(*results.GoTest); ok && limited.Err() == nil && !goChooses(one.commandLine()) {
		listing := time.Now()
		if err := x.addMissing(limited, g, argv[0], env); err != nil {
			x.call.Warn("not_run_unknown", err.Error())
		}
		end.exit.Duration += time.Since(listing)
	}
	for i, e := range set.Build {
		set.Build[i].File = p.resolveFile(e.File, true)
		set.Build[i].Message = p.shortenPaths(e.Message)
	}
	return end, nil
}

// addMissing asks packages that panicked for the tests that never began.
func (x *execution) addMissing(ctx context.Context, g *results.GoTest, program string, env []string) error {
	for _, name := range g.Panicked() {
		out := &proc.Head{Limit: 1 << 20}
		spec := proc.Spec{Argv: slices.Concat([]string{program, "test", "-list", "."}, goListFlags(x.job.project.args), []string{name}), Dir: x.job.project.dir, Env: env, Stdout: out, Tree: true}
		if _, err := x.reaper.Run(ctx, spec); err != nil {
			return fmt.Errorf("list the tests of %s: %w", name, err)
		}
		var listed []string
		for line := range bytes.Lines(out.Bytes()) {
			test := string(bytes.TrimSpace(line))
			if strings.HasPrefix(test, "Test") || strings.HasPrefix(test, "Example") || strings.HasPrefix(test, "Fuzz") {
				listed = append(listed, test)
			}
		}
		g.Missing(name, listed)
	}
	return nil
}

// watch reads the output as it comes.
type watch struct {
	stream         results.Stream
	mark           func(string) (passed, failed bool)
	set            *results.Set
	passed, failed int
	seen           int
}

func newWatch(one *plan, set *results.Set) *watch {
	w := &watch{mark: one.mark, set: set}
	if one.stream != nil {
		w.stream = one.stream(set)
	}
	return w
}

func (w *watch) handleLine(line string) {
	w.seen++
	if w.stream != nil {
		w.stream.Line(line)
	}
	if w.mark != nil {
		passed, failed := w.mark(line)
		if passed {
			w.passed++
		}
		if failed {
			w.failed++
		}
	}
}

// lastText returns one line to show to a person. Tests can forge it, so nothing depends on it.
func (w *watch) lastText() string {
	passed, failed := w.passed, w.failed
	if g, ok := w.stream.(*results.GoTest); ok {
		passed, failed = g.Progress()
	} else if w.mark == nil {
		passed, failed = w.set.Counts.Passed, w.set.Counts.Failed+w.set.Counts.Errored
	}
	if passed+failed == 0 {
		return fmt.Sprintf("lines of output so far: %d", w.seen)
	}
	return fmt.Sprintf("%d tests passed, %d failed", passed, failed)
}

// addPlain is the verdict on a command that has nothing but its exit code.
func addPlain(set *results.Set, one *plan, end outcome) {
	c := results.Case{ID: "command", Name: strings.Join(one.shown, " "), Status: results.Passed, Duration: end.exit.Duration}
	if end.exit.Code != 0 {
		c.Status, c.Kind = results.Failed, results.Assertion
		c.Message, c.Detail = fmt.Sprintf("exit code %d", end.exit.Code), strings.TrimSpace(end.tail)
		if end.isBroken() {
			c.Status, c.Kind = results.Errored, results.Setup
		}
		if end.exit.Signal != 0 {
			c.Message = "ended by signal: " + end.exit.Signal.String()
		}
	}
	set.Add(c)
}

// isBroken reports whether the command itself could not run: a signal ended it, or the shell says so.
func (o outcome) isBroken() bool {
	return o.exit.Signal != 0 || o.exit.Code == 126 || o.exit.Code == 127
}
