package test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
)

// Status is how a test run ended.
type Status string

const (
	StatusPassed  Status = "passed"
	StatusFailed  Status = "failed"   // tests are red, or do not build
	StatusError   Status = "error"    // nothing can be said about the tests
	StatusNoTests Status = "no_tests" // green without a test is no success
	StatusTimeout Status = "timeout"
)

// Kinds of failures.
const (
	kindAssertion = "assertion"
	kindPanic     = "panic"
	kindBuild     = "build"
	kindTimeout   = "timeout"
	kindSetup     = "setup"
)

const (
	maxFailures     = 20
	maxBuildErrors  = 50
	maxMessage      = 1 << 10
	maxExcerpt      = 2 << 10
	maxExcerptLines = 40
)

// Report is the data of test.run, small enough to be read by an agent. Files are relative to the working directory
// where they lie below it.
type Report struct {
	Status      Status       `json:"status"`
	Framework   string       `json:"framework"`
	Command     []string     `json:"command"`
	DurationMS  int64        `json:"duration_ms"`
	Counts      Counts       `json:"counts"`
	Failures    []Failure    `json:"failures"`
	BuildErrors []BuildError `json:"build_errors"`
	Truncated   Truncated    `json:"truncated"`
	ReportPath  string       `json:"report_path"`
	LogPath     string       `json:"log_path"`
	Exit        Exit         `json:"exit"`
	// Fingerprint is the same for the same failures with the same messages, numbers aside.
	Fingerprint string `json:"fingerprint"`
}

// Counts are of leaf tests: a test with sub-tests is not counted itself, unless it failed while they did not.
type Counts struct {
	Total   int `json:"total"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Errored int `json:"errored"` // packages that could not run their tests
	Flaky   int `json:"flaky"`
	NotRun  int `json:"not_run"` // begun or waiting when their package died
}

// Failure is one red test or one package that could not be tested.
type Failure struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Suite   string `json:"suite"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Excerpt string `json:"excerpt"`
	Rerun   Rerun  `json:"rerun"`
	Flaky   bool   `json:"flaky"`
}

// Rerun says how to run one test again.
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

// Truncated says what the report and the log leave out.
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

func newReport(j job, log string) Report {
	return Report{Framework: j.framework, Command: j.shown, LogPath: log, Failures: []Failure{}, BuildErrors: []BuildError{}}
}

// finish sorts, fingerprints and cuts.
func (r *Report) finish() {
	slices.SortStableFunc(r.Failures, func(a, b Failure) int { return strings.Compare(a.ID, b.ID) })
	addresses, numbers := regexp.MustCompile(`0x[0-9a-f]+`), regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	sum := sha256.New()
	for _, f := range r.Failures {
		message := numbers.ReplaceAllString(addresses.ReplaceAllString(f.Message, "#"), "#")
		fmt.Fprintf(sum, "%s\x00%s\x00%s\x00", f.ID, f.Kind, message)
	}
	r.Fingerprint = hex.EncodeToString(sum.Sum(nil))
	if n := len(r.Failures); n > maxFailures {
		r.Truncated.FailuresOmitted = n - maxFailures
		r.Failures = r.Failures[:maxFailures]
	}
	r.BuildErrors = r.BuildErrors[:min(len(r.BuildErrors), maxBuildErrors)]
}

// summary is one line for a person.
func (r *Report) summary() string {
	text := fmt.Sprintf("%d of %d tests failed", r.Counts.Failed, r.Counts.Total)
	if r.Counts.Errored > 0 {
		text += fmt.Sprintf(", %d packages could not be tested", r.Counts.Errored)
	}
	if len(r.Failures) > 0 {
		f := r.Failures[0]
		text += ": " + f.ID
		if f.File != "" {
			text += fmt.Sprintf(" (%s:%d)", f.File, f.Line)
		}
	} else if r.Status == StatusError {
		text = fmt.Sprintf("the command ended with code %d and named no failure", r.Exit.Code)
	}
	return text
}

// excerpt keeps the head and the tail of an output.
func excerpt(lines []string) string {
	if n := len(lines); n > maxExcerptLines {
		half := maxExcerptLines / 2
		cut := fmt.Sprintf("… %d lines left out …", n-2*half)
		lines = slices.Concat(lines[:half], []string{cut}, lines[n-half:])
	}
	return clip(strings.Join(lines, "\n"), maxExcerpt)
}

// clip cuts text to a number of bytes, keeping both ends.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	const mark = "\n…\n"
	half := (limit - len(mark)) / 2
	return strings.ToValidUTF8(text[:half], "") + mark + strings.ToValidUTF8(text[len(text)-half:], "")
}
