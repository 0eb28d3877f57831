package test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/skills/test/results/export"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Status is how a test run ended.
type Status string

const (
	StatusPassed  Status = "passed"
	StatusFailed  Status = "failed"   // tests are red or flaky, or do not build
	StatusError   Status = "error"    // nothing can be said about the tests
	StatusNoTests Status = "no_tests" // green without a test is no success
	StatusTimeout Status = "timeout"
)

const maxFailures = 20

// Report is the data of test.run, small enough to be read by an agent. Files are relative to root, the repository's
// folder; files elsewhere have absolute paths.
type Report struct {
	Status      Status            `json:"status"`
	Framework   string            `json:"framework"`
	Command     []string          `json:"command"`
	Cwd         string            `json:"cwd"`  // where it ran, relative to the workspace
	Root        string            `json:"root"` // folder to which files are relative, relative to the workspace
	DurationMS  int64             `json:"duration_ms"`
	Counts      Counts            `json:"counts"`
	Failures    []Failure         `json:"failures"`
	BuildErrors []BuildError      `json:"build_errors"`
	Truncated   Truncated         `json:"truncated"`
	ReportPath  string            `json:"report_path"`
	LogPath     string            `json:"log_path"`
	Reports     map[string]string `json:"reports"` // junit and ctrf, where they were asked for
	Exit        Exit              `json:"exit"`
	Fingerprint string            `json:"fingerprint"` // see results.Set.Fingerprint
	Candidates  []Candidate       `json:"candidates"`
	problem     string
}

// Counts are of leaf tests: one with sub-tests is not counted itself, unless it failed while they did not. Total is the
// sum of the others, without those errored that stand for a package, a file or a build.
type Counts struct {
	Total   int `json:"total"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Errored int `json:"errored"` // broke outside of the test: set-up, collection, build
	Flaky   int `json:"flaky"`   // failed, and passed when run again
	NotRun  int `json:"not_run"` // begun or waiting when their process died
}

// Failure is one red or flaky test, or one package that could not be tested.
type Failure struct {
	ID      string       `json:"id"`
	Name    string       `json:"name"`
	Suite   string       `json:"suite"`
	File    string       `json:"file"`
	Line    int          `json:"line"`
	Kind    results.Kind `json:"kind"`
	Message string       `json:"message"`
	Excerpt string       `json:"excerpt"`
	Rerun   Rerun        `json:"rerun"`
	Flaky   bool         `json:"flaky"`
}

// Rerun says how to run one test again, in the folder where the run was.
type Rerun struct {
	Command []string `json:"command"`
}

// BuildError is one message of a compiler or vet.
type BuildError struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Message string `json:"message"`
}

// Truncated counts the parts that the report and the log omit.
type Truncated struct {
	FailuresOmitted int   `json:"failures_omitted"`
	BytesOmitted    int64 `json:"bytes_omitted"`
}

// Exit is how the command ended; Signal is empty when it exited by itself.
type Exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal"`
}

func exitOf(e proc.Exit) Exit {
	x := Exit{Code: e.Code}
	if e.Signal != 0 {
		x.Signal = e.Signal.String()
	}
	return x
}

// judgeRun is the verdict on a run. The exit code alone is never believed when it says success, and always when it says
// failure. A test that passed in a rerun counts as passed only if the caller allows it; a runner's own retries are the project's
// choice.
func judgeRun(set *results.Set, one *plan, end outcome, none, allowFlaky bool, recovered int) Status {
	red := 0
	for i := range set.Failing {
		if set.Failing[i].Status != results.Flaky {
			red++
		}
	}
	switch c := set.Counts; {
	case one.isPlain() && end.isBroken():
		return StatusError
	case red > 0:
		return StatusFailed
	case recovered > 0 && !allowFlaky:
		return StatusFailed
	case end.exit.Code != 0 && len(set.Build) > 0:
		return StatusFailed
	case none && c.Total == 0:
		return StatusNoTests
	case end.exit.Code != 0 && recovered == 0, end.problem != "":
		return StatusError
	case c.Total == 0:
		return StatusNoTests
	}
	return StatusPassed
}

// newReport makes the Report of a finished run.
func (x *execution) newReport(first outcome, late bool, recovered int) Report {
	j, set := x.job, x.set
	r := Report{
		Framework: j.framework, Command: j.plan.shown, Cwd: j.project.relativePath(j.project.dir), Root: j.project.relativePath(j.project.top),
		DurationMS: first.exit.Duration.Milliseconds(), LogPath: x.log.Path, Exit: exitOf(first.exit),
		Failures: []Failure{}, BuildErrors: []BuildError{}, Reports: map[string]string{}, Candidates: j.candidates, problem: first.problem,
	}
	none := j.runner.none != nil && j.runner.none(first.exit.Code, first.tail)
	r.Status = judgeRun(set, &j.plan, first, none, j.allowFlaky, recovered)
	switch {
	case late:
		r.Status = StatusTimeout
	case r.Status == StatusFailed && len(set.Failing) == 0, r.Status == StatusError && len(set.Failing) == 0:
		set.Add(x.wholeRunCase(first))
	case r.Status == StatusPassed && first.problem != "":
		x.call.Warn("report_incomplete", first.problem)
	}
	r.Counts = Counts(set.Counts)
	r.Fingerprint = set.Fingerprint()
	r.Truncated.BytesOmitted = x.log.Omitted()
	for _, e := range set.Build {
		r.BuildErrors = append(r.BuildErrors, BuildError(e))
	}
	failing := slices.Clone(set.Failing)
	slices.SortStableFunc(failing, func(a, b results.Case) int {
		if (a.Status == results.Flaky) != (b.Status == results.Flaky) { // failed tests come first
			if b.Status == results.Flaky {
				return -1
			}
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	r.Truncated.FailuresOmitted = max(0, set.Counts.Failed+set.Counts.Errored+set.Counts.Flaky-maxFailures)
	for _, c := range failing[:min(len(failing), maxFailures)] {
		r.Failures = append(r.Failures, x.newFailure(c))
	}
	return r
}

// wholeRunCase stands for a run that failed and named no test: it did not build, or its runner broke.
func (x *execution) wholeRunCase(end outcome) results.Case {
	c := results.Case{
		ID: x.job.framework, Name: x.job.framework, Status: results.Errored, Kind: results.Setup, Package: true,
		Message: cmp.Or(end.problem, fmt.Sprintf("the command ended with code %d and named no failure", end.exit.Code)), Detail: strings.TrimSpace(end.tail),
	}
	if end.problem != "" && end.exit.Code != 0 {
		c.Message = fmt.Sprintf("the command ended with code %d: %s", end.exit.Code, end.problem)
	}
	if len(x.set.Build) > 0 {
		b := x.set.Build[0]
		c.Kind, c.Message, c.File, c.Line = results.Build, b.Message, b.File, b.Line
	}
	x.set.Adjust = nil // it is placed already
	return c
}

func (x *execution) newFailure(c results.Case) Failure {
	f := Failure{
		ID: c.ID, Name: c.Name, Suite: c.Suite, File: c.File, Line: c.Line, Kind: c.Kind, Message: c.Message, Excerpt: c.Detail,
		Flaky: c.Status == results.Flaky, Rerun: Rerun{Command: x.job.plan.shown},
	}
	if again := x.job.runner.again; again != nil && (!c.Package || x.job.runner.packages) {
		if plans, err := again(x.job.project, []results.Case{c}); err == nil && len(plans) > 0 {
			f.Rerun.Command = plans[0].shown
		}
	}
	return f
}

// saveReports writes the report next to the log, and reports in the requested formats.
func (x *execution) saveReports(r *Report) error {
	run := export.Run{Tool: r.Framework, Start: x.began, Duration: time.Since(x.began)}
	for _, format := range x.job.exports {
		var out bytes.Buffer
		name, write := ".junit.xml", export.JUnit
		if format == results.FormatCTRF {
			name, write = ".ctrf.json", export.CTRF
		}
		if err := write(&out, x.set, run); err != nil {
			return err
		}
		path := proc.TranscriptPath(x.call, name)
		if err := x.replaceFile(path, &out); err != nil {
			return err
		}
		r.Reports[string(format)] = path
		metadata, err := json.Marshal(map[string]any{"format": format, "tests": r.Counts.Total})
		if err != nil {
			return fmt.Errorf("save the test report: %w", err)
		}
		if err := x.call.Emit(protocol.Artifact{Kind: "file", Ref: path, Metadata: metadata}); err != nil {
			return err
		}
	}
	r.ReportPath = proc.TranscriptPath(x.call, ".test.json")
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("save the test report: %w", err)
	}
	return x.replaceFile(r.ReportPath, bytes.NewReader(append(data, '\n')))
}

// replaceFile writes a file of the runtime. It removes an existing file or link first.
func (x *execution) replaceFile(name string, from io.Reader) error {
	if err := x.call.Root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("save the test report: %w", err)
	}
	_, err := x.call.Root.WriteFrom(name, from, 0o600)
	return err
}

// summarize is one line for a person.
func (r *Report) summarize() string {
	text := fmt.Sprintf("%d of %d tests failed", r.Counts.Failed, r.Counts.Total)
	if r.Counts.Flaky > 0 {
		text += fmt.Sprintf(", %d flaky", r.Counts.Flaky)
	}
	if r.Counts.Errored > 0 {
		text += fmt.Sprintf(", %d could not be run", r.Counts.Errored)
	}
	if len(r.Failures) > 0 {
		f := r.Failures[0]
		text += ": " + f.ID
		if f.File != "" {
			text += fmt.Sprintf(" (%s:%d)", f.File, f.Line)
		}
	}
	if r.Status == StatusError {
		text = cmp.Or(r.problem, fmt.Sprintf("the command ended with code %d and named no failure", r.Exit.Code))
	}
	return text
}

// judgeReport turns the report into the outcome of the call (DESIGN 13).
func (r *Report) judgeReport(allowRed bool) (*Report, error) {
	switch {
	case r.Status == StatusPassed, (r.Status == StatusFailed || r.Status == StatusNoTests) && allowRed:
		return r, nil
	case r.Status == StatusFailed:
		return nil, fault.Failed("tests_failed", "%s", r.summarize()).
			WithHint("the whole output is in %s", r.LogPath).WithDetails(r)
	case r.Status == StatusTimeout:
		e := fault.Timeout("timeout", "the tests did not end in time").WithDetails(r).
			WithHint("failures and %s tell how far they came; give timeout_s more seconds, or run fewer tests with args", r.LogPath)
		e.Retryable = false
		return nil, e
	case r.Status == StatusNoTests:
		return nil, fault.Failed("no_tests", "there are no tests to run").WithDetails(r).
			WithHint("candidates lists other ways to test that were found; set cwd, framework, args or command; the whole output is in %s", r.LogPath)
	}
	return nil, fault.Failed("test_error", "the tests could not be run: %s", r.summarize()).
		WithHint("the whole output is in %s", r.LogPath).WithDetails(r)
}
