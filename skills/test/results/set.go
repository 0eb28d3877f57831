// Package results reads the output and reports of test runners into one form. Begin with Set: a parser adds Cases to it, and
// the caller reads counts and failures from it.
//
//	go test -json · libtest · unittest · TAP   ─ Stream, fed line by line while the tests run ─┐
//	JUnit · CTRF · jest · mocha · rspec · trx  ─ Format.Parse, over a report when they are done ┴► Set ─► package export
//
// The package is pure: it opens no file, runs nothing and reads no clock. Its input was written by tests and is not trusted.
// The limits below bound its memory for reports of any size and depth, and texts become valid UTF-8 without control
// sequences. Files have the names that the runner used; the caller resolves them.
package results

import (
	"cmp"
	"strings"
	"time"
)

// Status is the verdict on one test.
type Status string

const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Errored Status = "errored" // it broke outside of the test itself: set-up, collection, build
	Skipped Status = "skipped"
	Flaky   Status = "flaky"   // it failed and then passed
	NotRun  Status = "not_run" // it was to run, and its process died first
)

// Kind classifies a failure.
type Kind string

const (
	Assertion Kind = "assertion"
	Panic     Kind = "panic"
	Build     Kind = "build"
	Timeout   Kind = "timeout"
	Setup     Kind = "setup"
)

// Limits of a Set. Cases beyond them are counted, but not kept.
const (
	MaxMessage  = 1 << 10 // bytes of a message
	MaxDetail   = 2 << 10 // bytes of a failure's output
	MaxLines    = 40      // lines of a failure's output, half from its start, half from its end
	maxName     = 512     // bytes of a name
	maxPassed   = 50_000  // cases that did not fail
	maxFailing  = 5_000
	maxBuild    = 50
	maxReport   = 32 << 20 // bytes of a report that are read
	maxNesting  = 200      // depth of a report
	maxTapDepth = 32
)

// Case is one test: a leaf, never a suite.
type Case struct {
	ID       string // identifies the test in its run; the name that the runner uses, if it has one
	Name     string
	Suite    string
	File     string // as the runner wrote it
	Line     int    // 1-based; 0 when unknown
	Status   Status
	Kind     Kind   // of a failure
	Message  string // one or a few lines
	Detail   string // output or stack of a failure
	Duration time.Duration
	Package  bool // it stands for a package, file or build that could not be tested, and is no test itself
}

// Failing reports whether the case is one to look at.
func (c *Case) Failing() bool { return c.Status == Failed || c.Status == Errored || c.Status == Flaky }

// BuildError is one message of a compiler.
type BuildError struct {
	File    string
	Line    int
	Col     int
	Message string
}

// Counts are of tests; Total is the sum of Passed, Failed, Skipped, Flaky, NotRun and those Errored that are tests.
type Counts struct{ Total, Passed, Failed, Skipped, Errored, Flaky, NotRun int }

// Set holds the results of one run. The zero value is ready.
type Set struct {
	// Setup is why nothing could be built or run, such as dependencies that cannot be fetched; "" when it could.
	Setup  string
	Counts Counts
	// Cases are in the order seen; those that do not fail lack message and detail.
	Cases []Case
	// Failing are those to look at, in the order seen.
	Failing []Case
	// Build are the messages of the compiler.
	Build []BuildError
	// Bail is why the runner gave up, in its own words.
	Bail string
	// Omitted counts cases beyond the limits, which are in Counts only.
	Omitted int
	// Adjust, when set, sees every case before it is added.
	Adjust func(*Case)
}

// Add cleans a case and takes it in.
func (s *Set) Add(c Case) {
	if s.Adjust != nil {
		s.Adjust(&c)
	}
	c.Name, c.Suite, c.ID, c.File = cleanName(c.Name), cleanName(c.Suite), cleanName(c.ID), cleanName(c.File)
	if c.ID == "" {
		c.ID = joinNames(c.Suite, c.Name)
	}
	c.Line = max(c.Line, 0)
	c.Duration = max(c.Duration, 0)
	if c.Failing() {
		c.Message, c.Detail = Clip(Clean(c.Message), MaxMessage), Excerpt(Clean(c.Detail))
		c.Message = cmp.Or(c.Message, "the test failed")
		c.Kind = cmp.Or(c.Kind, Assertion)
	} else {
		c.Message, c.Detail, c.Kind = "", "", ""
	}
	s.Counts.addCase(&c, 1)
	switch {
	case c.Failing() && len(s.Failing) < maxFailing:
		s.Failing = append(s.Failing, c)
	case c.Failing(), len(s.Cases) >= maxPassed:
		s.Omitted++
		return
	}
	if len(s.Cases) < maxPassed+maxFailing && !c.Package {
		c.Message, c.Detail = "", "" // Failing has them
		s.Cases = append(s.Cases, c)
	}
}

// AddBuild takes in a message of the compiler.
func (s *Set) AddBuild(e BuildError) {
	if len(s.Build) < maxBuild {
		e.File, e.Message = cleanName(e.File), Clip(Clean(e.Message), MaxMessage)
		s.Build = append(s.Build, e)
	}
}

func (c *Counts) addCase(k *Case, n int) {
	switch k.Status {
	case Passed:
		c.Passed += n
	case Failed:
		c.Failed += n
	case Skipped:
		c.Skipped += n
	case Errored:
		c.Errored += n
	case Flaky:
		c.Flaky += n
	case NotRun:
		c.NotRun += n
	}
	if !k.Package {
		c.Total += n
	}
}

// Recovered marks the failing tests that again says passed, and returns how many they are. A test counts when it ran
// again, passed, and did not also fail under the same id.
func (s *Set) Recovered(again *Set) int {
	passed, failed := map[string]bool{}, map[string]bool{}
	for i := range again.Cases {
		if c := &again.Cases[i]; c.Status == Passed {
			passed[c.ID] = true
		}
	}
	for i := range again.Failing {
		failed[again.Failing[i].ID] = true
	}
	recovered := map[string]bool{}
	for i := range s.Failing {
		c := &s.Failing[i]
		if c.Status == Flaky || c.Package || !passed[c.ID] || failed[c.ID] {
			continue
		}
		s.Counts.addCase(c, -1)
		c.Status = Flaky
		s.Counts.addCase(c, 1)
		recovered[c.ID] = true
	}
	for i := range s.Cases {
		if recovered[s.Cases[i].ID] {
			s.Cases[i].Status = Flaky
		}
	}
	return len(recovered)
}

func joinNames(suite, name string) string {
	if suite == "" || name == "" {
		return suite + name
	}
	return suite + " > " + name
}

// fromSeconds reads a runner's decimal seconds; nonsense is 0.
func fromSeconds(s float64) time.Duration {
	if !(s > 0) || s > 1e9 {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// fromMillis reads a runner's milliseconds.
func fromMillis(ms float64) time.Duration { return fromSeconds(ms / 1000) }

// firstParagraph returns the first paragraph of a text, at most a few lines. It is the message if the runner reports only a stack.
func firstParagraph(text string) string {
	lines := make([]string, 0, 4)
	for line := range strings.Lines(strings.TrimLeft(text, "\r\n ")) {
		line = strings.TrimRight(line, " \r\n")
		if line == "" || len(lines) == 4 || strings.HasPrefix(strings.TrimLeft(line, " \t"), "at ") {
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
