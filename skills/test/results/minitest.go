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
	ended   []Case          // tests whose verdicts were read
	failing map[string]bool // ids of tests with a section
	body    output

	verdict, header, place, frame, count *regexp.Regexp
}

// NewMinitest makes a reader that adds to s.
func NewMinitest(s *Set) *Minitest {
	return &Minitest{
		set: s, failing: map[string]bool{},
		verdict: regexp.MustCompile(`^(.+#.+?) = [0-9.]+ s = ([.FES])$`),
		header:  regexp.MustCompile(`^ +\d+\) (Failure|Error|Skipped):$`),
		place:   regexp.MustCompile(`^(\S.*#.+?)(?: \[(.+?):(\d+)\])?:$`),
		frame:   regexp.MustCompile("^    (\\S.*?):(\\d+):in [`']"),
		count:   regexp.MustCompile(`^\d+ runs?, \d+ assertions?, \d+ failures?, \d+ errors?, \d+ skips?$`),
	}
}

// Line takes one line.
func (m *Minitest) Line(line string) {
	line = Clean(line)
	if v := m.verdict.FindStringSubmatch(line); v != nil && m.section == nil {
		if len(m.ended) < maxPassed && len(line) <= keptLine {
			m.ended = append(m.ended, newVerdict(v[1], v[2]))
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
	if m.count.MatchString(line) {
		m.closeFailure()
		return
	}
	if m.section != nil {
		m.addLine(line)
	}
}

// newVerdict returns a test that ended with ".", "S" (skipped), "F" or "E" (an error).
func newVerdict(id, letter string) Case {
	c := Case{ID: id}
	switch letter {
	case ".":
		c.Status = Passed
	case "S":
		c.Status = Skipped
	case "F":
		c.Status, c.Kind = Failed, Assertion
	case "E":
		c.Status, c.Kind = Failed, Panic
	}
	c.Suite, c.Name, _ = strings.Cut(id, "#")
	return c
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

// Done adds the tests without a section. Tests that failed have none if the process died before it wrote the sections.
func (m *Minitest) Done() {
	m.closeFailure()
	for _, c := range m.ended {
		if !m.failing[c.ID] {
			m.set.Add(c)
		}
	}
	m.ended = nil
}
