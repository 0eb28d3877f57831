package results

import (
	"regexp"
	"strconv"
	"strings"
)

// Unittest reads the output of python -m unittest -v: verdicts while it runs, and at the end a section for each failure.
// Sections list failures; verdicts count for passed tests only, because the output of a test may hide one. If the process
// died before the sections, the verdicts tell the failures as well.
type Unittest struct {
	set     *Set
	name    string // of the test whose verdict is awaited
	passed  []string
	failed  []string        // tests whose verdict is FAIL or ERROR
	failing map[string]bool // ids of tests with a section
	section *Case
	body    output
	state   int
	ran     int
	skipped int
	done    bool

	test, header, frame, total, count *regexp.Regexp
}

const (
	unittestRuns   = iota
	unittestHeader // after ====
	unittestBody   // after the header
)

// NewUnittest makes a reader that adds to s.
func NewUnittest(s *Set) *Unittest {
	return &Unittest{
		set: s, failing: map[string]bool{}, ran: -1,
		test:   regexp.MustCompile(`^(\w+) \(([\w.<>]+)\)`),
		header: regexp.MustCompile(`^(FAIL|ERROR|UNEXPECTED SUCCESS): (.+)$`),
		frame:  regexp.MustCompile(`^\s*File "(.+?)", line (\d+)`),
		total:  regexp.MustCompile(`^Ran (\d+) tests? in `),
		count:  regexp.MustCompile(`(skipped|expected failures)=(\d+)`),
	}
}

// unittestID returns the name of a test for python -m unittest. Since Python 3.11 the parentheses hold the test's name, too.
func unittestID(name, class string) string {
	if class == name || strings.HasSuffix(class, "."+name) {
		return class
	}
	return class + "." + name
}

// Line takes one line.
func (u *Unittest) Line(line string) {
	switch {
	case u.done:
	case strings.HasPrefix(line, strings.Repeat("=", 70)):
		u.closeFailure()
		u.state = unittestHeader
	case u.total.MatchString(line):
		u.closeFailure()
		u.state = unittestRuns
		u.ran = parseNumber(u.total.FindStringSubmatch(line)[1])
	case u.ran >= 0:
		u.readSummary(line)
	case u.state == unittestHeader:
		u.openFailure(line)
	case u.state == unittestBody:
		if strings.HasPrefix(line, strings.Repeat("-", 70)) {
			return
		}
		u.body.addLine(line)
	default:
		u.addVerdict(line)
	}
}

func (u *Unittest) addVerdict(line string) {
	if len(line) > keptLine {
		return // no name is that long
	}
	if m := u.test.FindStringSubmatch(line); m != nil {
		u.name = unittestID(m[1], m[2])
	}
	if u.name == "" || len(u.passed)+len(u.failed) >= maxPassed {
		return
	}
	if line == "ok" || strings.HasSuffix(line, " ... ok") {
		u.passed = append(u.passed, u.name)
		u.name = ""
	}
	if strings.HasSuffix(line, " ... FAIL") || strings.HasSuffix(line, " ... ERROR") {
		u.failed = append(u.failed, u.name)
	}
}

func (u *Unittest) openFailure(line string) {
	u.state = unittestBody
	u.body = output{}
	m := u.header.FindStringSubmatch(line)
	if m == nil {
		return
	}
	c := Case{Name: m[2], Status: Failed}
	if m[1] == "ERROR" {
		c.Status, c.Kind = Errored, Panic
	}
	if t := u.test.FindStringSubmatch(m[2]); t != nil {
		c.ID, c.Name, c.Suite = unittestID(t[1], t[2]), strings.TrimSpace(t[1]+m[2][len(t[0]):]), strings.TrimSuffix(t[2], "."+t[1])
		if strings.HasPrefix(t[2], "unittest.loader._FailedTest") {
			c.ID, c.Suite, c.Kind = t[1], t[1], Setup
		}
		if strings.HasPrefix(t[1], "setUp") || strings.HasPrefix(t[1], "tearDown") {
			c.ID, c.Suite, c.Kind, c.Package = t[2], t[2], Setup, true
		}
	}
	if !c.Package && len(u.failing) < maxPassed {
		u.failing[c.ID] = true
	}
	u.section = &c
}

// closeFailure adds the failure whose section ends.
func (u *Unittest) closeFailure() {
	c := u.section
	u.section = nil
	if c == nil {
		return
	}
	c.Detail = strings.TrimSpace(u.body.joinLines())
	lines := u.body.lines
	for i, line := range lines {
		if m := u.frame.FindStringSubmatch(line); m != nil && !strings.Contains(m[1], "/lib/python") && !strings.HasPrefix(m[1], "<") {
			c.File, c.Line = m[1], parseNumber(m[2])
		}
		// The message begins where the stack ends: at a line that is not indented.
		if i > 0 && line != "" && line[0] != ' ' && strings.HasPrefix(lines[i-1], "  ") && !strings.HasPrefix(line, "Traceback") {
			c.Message = firstParagraph(strings.Join(lines[i:], "\n"))
		}
	}
	if c.Status == Errored && c.Kind == Panic {
		c.Status = Failed // the test itself raised something
	}
	if strings.Contains(c.Detail, "SyntaxError: ") && c.Kind == Setup {
		c.Kind = Build
	}
	u.set.Add(*c)
}

func (u *Unittest) readSummary(line string) {
	for _, m := range u.count.FindAllStringSubmatch(line, 4) {
		u.skipped += parseNumber(m[2])
	}
	u.done = strings.HasPrefix(line, "OK") || strings.HasPrefix(line, "FAILED") || strings.HasPrefix(line, "NO TESTS")
}

// Done adds the tests that passed, and unnamed ones up to the number in the last line.
func (u *Unittest) Done() {
	u.closeFailure()
	for _, id := range u.failed {
		if u.ran < 0 && !u.failing[id] {
			u.failing[id] = true
			u.addBare(id, Failed)
		}
	}
	passed := 0
	for _, id := range u.passed {
		if u.failing[id] {
			continue // a sub-test failed
		}
		u.addBare(id, Passed)
		passed++
	}
	for i := range min(u.skipped, maxPassed) {
		u.set.Add(Case{Name: "skipped " + strconv.Itoa(i+1), Status: Skipped})
	}
	for i := range max(0, min(u.ran-passed-u.skipped-len(u.failing), maxPassed)) {
		u.set.Add(Case{Name: "unnamed " + strconv.Itoa(i+1), Status: Passed})
	}
}

// addBare adds a test of which only the verdict is known.
func (u *Unittest) addBare(id string, status Status) {
	i := strings.LastIndexByte(id, '.')
	u.set.Add(Case{ID: id, Name: id[i+1:], Suite: id[:max(i, 0)], Status: status})
}
