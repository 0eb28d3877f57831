package results

import (
	"regexp"
	"strings"
)

// Minitest reads the output of minitest -v: a verdict for each test while it runs, and at the end a numbered section for
// each failure.
type Minitest struct {
	set     *Set
	section *Case
	passed  []Case
	failing map[string]bool // ids of tests with a section
	body    output
	total   int // that the summary counts; -1 before it

	verdict, header, place, frame, count *regexp.Regexp
}

// NewMinitest makes a reader that adds to s.
func NewMinitest(s *Set) *Minitest {
	return &Minitest{
		set: s, failing: map[string]bool{}, total: -1,
		verdict: regexp.MustCompile(`^(.+#.+?) = [0-9.]+ s = ([.FES])$`),
		header:  regexp.MustCompile(`^ +\d+\) (Failure|Error|Skipped):$`),
		place:   regexp.MustCompile(`^(\S.*#.+?)(?: \[(.+?):(\d+)\])?:$`),
		frame:   regexp.MustCompile("^    (\\S.*?):(\\d+):in [`']"),
		count:   regexp.MustCompile(`^(\d+) runs?, \d+ assertions?, \d+ failures?, \d+ errors?, \d+ skips?$`),
	}
}

// Line takes one line.
func (m *Minitest) Line(line string) {
	line = Clean(line)
	if v := m.verdict.FindStringSubmatch(line); v != nil && m.section == nil {
		if len(m.passed) < maxPassed && (v[2] == "." || v[2] == "S") {
			c := Case{ID: v[1], Status: Passed}
			if v[2] == "S" {
				c.Status = Skipped
			}
			c.Suite, c.Name, _ = strings.Cut(v[1], "#")
			m.passed = append(m.passed, c)
		}
		return
	}
	if h := m.header.FindStringSubmatch(line); h != nil {
		m.closeFailure()
		m.section = &Case{Status: Failed, Kind: Assertion}
		switch h[1] {
		case "Error":
			m.section.Kind = Panic
		case "Skipped":
			m.section.Status = Skipped
		}
		return
	}
	if c := m.count.FindStringSubmatch(line); c != nil {
		m.closeFailure()
		m.total = parseNumber(c[1])
		return
	}
	if m.section != nil {
		m.addLine(line)
	}
}

// addLine takes a line of a section.
func (m *Minitest) addLine(line string) {
	c := m.section
	if c.ID == "" {
		if p := m.place.FindStringSubmatch(line); p != nil {
			c.ID, c.File, c.Line = p[1], p[2], parseNumber(p[3])
			c.Suite, c.Name, _ = strings.Cut(p[1], "#")
		}
		return
	}
	if f := m.frame.FindStringSubmatch(line); f != nil && c.File == "" {
		c.File, c.Line = f[1], parseNumber(f[2])
	}
	if c.Message == "" {
		c.Message = strings.TrimSpace(line)
	}
	m.body.addLine(line)
}

// closeFailure adds the test of the open section.
func (m *Minitest) closeFailure() {
	c := m.section
	if m.section = nil; c == nil || c.ID == "" {
		return
	}
	c.Detail = strings.TrimSpace(m.body.joinLines())
	m.body = output{}
	if c.Status != Skipped && len(m.failing) < maxFailing && !m.failing[c.ID] {
		m.failing[c.ID] = true
		m.set.Add(*c)
	}
}

// Done adds the tests that passed.
func (m *Minitest) Done() {
	m.closeFailure()
	for _, c := range m.passed {
		if !m.failing[c.ID] {
			m.set.Add(c)
		}
	}
	m.passed = nil
}
