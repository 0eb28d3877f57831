// Package test holds test.run: it detects the test runner of a project, runs it, and reports each failure and its
// place. Begin with runTests; runner.go defines a test runner, and each runner has its own file.
//
//	prepare ─► detect (nearest folder, first runner) or project file or the caller's word ─► plan
//	execute ─► processes, log, stream, reports ─► results.Set ─► reruns ─► Report
//
// Package results reads the output and reports of runners; it is pure. Output of tests is untrusted: it goes to a capped log
// file and, cleaned and in short excerpts, into the report; never to stdout. Reports are written to a private folder
// where a runner can be told to; those in the project's folders count only when this run made them. Nothing that the
// tests start outlives the call.
package test

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultTimeout = 30 * time.Minute
	maxTimeout     = 24 * time.Hour
	maxLog         = 64 << 20
	maxLine        = 1 << 20
	maxReruns      = 10
	stopGrace      = 3 * time.Second
)

const frameworkCommand = "command"

// Skills lists the family. Its processes are started by r.
func Skills(r *proc.Reaper) []skill.Skill {
	return []skill.Skill{{Name: "test.run", Run: skill.Typed(func(ctx context.Context, c *skill.Call, in input) (*Report, error) {
		return runTests(ctx, c, in, r)
	})}}
}

type input struct {
	Cwd          string            `json:"cwd"`
	Command      json.RawMessage   `json:"command"`
	Framework    string            `json:"framework"`
	Args         []string          `json:"args"`
	ReportFormat string            `json:"report_format"`
	ReportFiles  []string          `json:"report_files"`
	TimeoutS     float64           `json:"timeout_s"`
	AllowRed     bool              `json:"allow_red"`
	RerunFailed  int               `json:"rerun_failed"`
	AllowFlaky   bool              `json:"allow_flaky"`
	Reports      []string          `json:"reports"`
	Env          map[string]string `json:"env"`
}

func runTests(ctx context.Context, c *skill.Call, in input, reaper *proc.Reaper) (*Report, error) {
	scratch, release, err := c.Root.Scratch(".")
	if err != nil {
		return nil, err
	}
	defer release()
	job, err := newJob(c, in, scratch)
	if err != nil {
		return nil, err
	}
	log, err := proc.OpenTranscript(c, ".test.log", maxLog)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	x := &execution{call: c, reaper: reaper, job: job, log: log}
	report, err := x.runAll(ctx)
	if err != nil {
		return nil, err
	}
	if err := x.saveReports(&report); err != nil {
		return nil, err
	}
	return report.judgeReport(in.AllowRed)
}

// job is one test run, decided.
type job struct {
	framework  string
	runner     runner
	project    *project
	plan       plan
	candidates []Candidate
	limit      time.Duration
	reruns     int
	allowFlaky bool
	exports    []results.Format
}

func newJob(c *skill.Call, in input, scratch string) (*job, error) {
	dir, err := proc.WorkDir(c, in.Cwd)
	if err != nil {
		return nil, err
	}
	start := &folder{c.Root, dir}
	j := &job{reruns: in.RerunFailed, allowFlaky: in.AllowFlaky, candidates: findCandidates(start)}
	if j.reruns < 0 || j.reruns > maxReruns {
		return nil, skill.BadInput("/rerun_failed", "is not between 0 and %d", maxReruns)
	}
	for i, name := range in.Reports {
		format := results.Format(name)
		if format != results.FormatJUnit && format != results.FormatCTRF {
			return nil, skill.BadInput("/reports", "member %d is %q; junit and ctrf can be written", i, name)
		}
		if !slices.Contains(j.exports, format) {
			j.exports = append(j.exports, format)
		}
	}
	env := slices.Clone(c.Env)
	where := start
	if in.Framework == "" && !isGiven(in.Command) {
		own, at, err := readSettings(start)
		if err != nil {
			return nil, err
		}
		if at != nil {
			where, in = at, own.fillInput(in)
			if env, err = addEnv(env, own.Env); err != nil {
				return nil, err
			}
			j.candidates = slices.Insert(j.candidates, 0, Candidate{Framework: cmp.Or(own.Framework, frameworkCommand), Cwd: relativeTo(at), Evidence: projectFile})
		}
	}
	if env, err = addEnv(env, in.Env); err != nil {
		return nil, err
	}
	if j.limit, err = timeLimit(in.TimeoutS); err != nil {
		return nil, err
	}
	j.project = &project{folder: *where, args: in.Args, env: removeColor(env), scratch: scratch, below: "."}
	err = j.decidePlan(in, start)
	j.project.top = topOf(&j.project.folder)
	return j, err
}

// fillInput adds members of the project file that the caller did not give.
func (s settings) fillInput(in input) input {
	in.Framework, in.Command = s.Framework, s.Command
	if len(in.Args) == 0 {
		in.Args = s.Args
	}
	if in.ReportFormat == "" {
		in.ReportFormat, in.ReportFiles = s.ReportFormat, s.ReportFiles
	}
	in.TimeoutS = cmp.Or(in.TimeoutS, s.TimeoutS)
	return in
}

// decidePlan chooses runner, folder and plan.
func (j *job) decidePlan(in input, start *folder) (err error) {
	p := j.project
	if in.Framework == "" && isGiven(in.Command) {
		in.Framework = frameworkCommand
	}
	j.framework = in.Framework
	if j.framework == frameworkCommand && isGiven(in.Command) {
		if len(in.Args) > 0 {
			return skill.BadInput("/args", "are for a framework; put them into command")
		}
		j.plan, err = commandPlan(in, p)
		return err
	}
	if in.ReportFormat != "" || len(in.ReportFiles) > 0 {
		return skill.BadInput("/report_format", "goes with a command; framework %s knows its own reports", cmp.Or(j.framework, "(detected)"))
	}
	var at *folder
	if j.runner, at, err = chooseRunner(start, in.Framework, j.candidates); err != nil {
		return err
	}
	j.framework = j.runner.name
	p.folder = *at
	if below, err := filepath.Rel(at.dir, start.dir); err == nil {
		p.below = filepath.ToSlash(below)
	}
	p.top = topOf(at)
	if j.plan, err = j.runner.plan(p); err != nil {
		return err
	}
	if isGiven(in.Command) {
		if j.plan.format != "" {
			return skill.BadInput("/command", "replaces what writes the report that framework %s is judged by; set report_format and report_files instead of framework", j.framework)
		}
		j.plan.shown, j.plan.argv, err = proc.Argv(in.Command, p.env)
		return err
	}
	_, err = proc.Resolve(j.plan.commandLine(), p.env)
	return err
}

// commandPlan runs the caller's command, judged by its exit code or by a report in a known format: files that it writes,
// or what it prints.
func commandPlan(in input, p *project) (one plan, err error) {
	if one.shown, one.argv, err = proc.Argv(in.Command, p.env); err != nil {
		return one, err
	}
	format := results.Format(in.ReportFormat)
	switch {
	case format == "" && len(in.ReportFiles) > 0:
		return one, skill.BadInput("/report_format", "is missing: report_files are in which format?")
	case format == "":
		return one, nil
	case !slices.Contains(results.Formats(), format):
		return one, skill.BadInput("/report_format", "is none of %v", results.Formats())
	case len(in.ReportFiles) == 0 && format.Stream(&results.Set{}) == nil:
		return one, skill.BadInput("/report_files", "are missing: %s is read from files only", format)
	case len(in.ReportFiles) == 0:
		one.stream = format.Stream
		return one, nil
	}
	one.format = format
	for i, pattern := range in.ReportFiles {
		if !filepath.IsLocal(filepath.FromSlash(pattern)) {
			return one, skill.BadInput("/report_files", "member %d is not a path below the working directory", i)
		}
		one.reports = append(one.reports, pattern)
	}
	return one, nil
}

func timeLimit(seconds float64) (time.Duration, error) {
	limit := defaultTimeout
	if seconds != 0 {
		limit = time.Duration(seconds * float64(time.Second))
	}
	if limit <= 0 || limit > maxTimeout {
		return 0, skill.BadInput("/timeout_s", "is not between 0 and %v seconds", maxTimeout.Seconds())
	}
	return limit, nil
}

func addEnv(env []string, more map[string]string) ([]string, error) {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(more[name], 0) {
			return nil, skill.BadInput("/env", "%q is no name of an environment variable, or its value holds a NUL byte", name)
		}
		env = append(env, name+"="+more[name])
	}
	return env, nil
}

// removeColor asks tools not to wait for a person, not to watch files and not to colour, unless the environment says
// something of it.
func removeColor(env []string) []string {
	for _, entry := range []string{"CI=1", "NO_COLOR=1"} {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env = append(env, entry)
		}
	}
	return slices.DeleteFunc(env, func(e string) bool {
		return strings.HasPrefix(e, "FORCE_COLOR=") || strings.HasPrefix(e, "CLICOLOR_FORCE=")
	})
}
