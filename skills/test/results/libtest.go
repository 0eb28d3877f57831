package results

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Libtest reads the output of cargo test. Its JSON is not stable yet. A test is named by its binary and its path; a
// binary that dies leaves tests without verdict, and is a failure itself.
type Libtest struct {
	set     *Set
	binary  string // "crate:src/lib.rs"
	planned int
	left    int // tests of the binary that have no verdict yet; -1 when no binary runs
	tail    output
	held    budget             // of details
	failed  []string           // of this binary, in order
	details map[string]*output // of this binary
	detail  *output            // the section being read
	build   *Compiler
	patterns
}

type patterns struct{ running, verdict, section, panicked, oldPanic, oldBegin, oldEnd, doc *regexp.Regexp }

// NewLibtest makes a reader that adds to s.
func NewLibtest(s *Set) *Libtest {
	return &Libtest{set: s, left: -1, build: NewCompiler(s), details: map[string]*output{}, patterns: patterns{
		running:  regexp.MustCompile(`^\s+Running (?:unittests )?(\S+) \(.*?([^/\\]+?)(?:-[0-9a-f]{16})?(?:\.exe)?\)$`),
		verdict:  regexp.MustCompile(`^test (.+?)(?: - should panic)?(?: - compile(?: fail)?)? \.\.\. (?:.*?)(ok|FAILED|ignored)(?:, .*)?(?: <[0-9.]+s>)?$`),
		section:  regexp.MustCompile(`^---- (.+) std(?:out|err) ----$`),
		panicked: regexp.MustCompile(`^(?:thread '.*' (?:\(\d+\) )?)?panicked at (\S.*?):(\d+):\d+:$`),
		doc:      regexp.MustCompile(`^(\S+) - .*\(line (\d+)\)$`),
		oldPanic: regexp.MustCompile(`^thread '.*' panicked at '(.*)', (\S+?):(\d+):\d+$`), // before Rust 1.73
		oldBegin: regexp.MustCompile(`^thread '.*' panicked at '(.*)$`),                    // the same, with a message of several lines
		oldEnd:   regexp.MustCompile(`^(.*)', (\S+?):(\d+):\d+$`),
	}}
}

// Line takes one line.
func (l *Libtest) Line(line string) {
	line = Clean(line)
	l.build.Line(line)
	if m := l.running.FindStringSubmatch(line); m != nil {
		l.endRun()
		l.binary = m[2] + ":" + m[1]
		return
	}
	if crate, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "Doc-tests "); ok && strings.HasPrefix(line, "   ") {
		l.endRun()
		l.binary = crate + ":doc"
		return
	}
	if n, ok := runningTests(line); ok && l.detail == nil {
		l.planned, l.left = n, n
		l.tail = output{}
		return
	}
	if l.left >= 0 {
		l.addTest(line)
	}
}

func runningTests(line string) (int, bool) {
	rest, ok := strings.CutPrefix(line, "running ")
	if !ok {
		return 0, false
	}
	rest, ok = strings.CutSuffix(strings.TrimSuffix(rest, "s"), " test")
	n, err := strconv.Atoi(rest)
	return min(n, maxPassed), ok && err == nil && n >= 0
}

func (l *Libtest) addTest(line string) {
	if strings.HasPrefix(line, "test result: ") {
		l.addReport()
		l.left = -1
		return
	}
	if m := l.section.FindStringSubmatch(line); m != nil {
		l.detail = &output{}
		if len(l.details) < maxFailing && len(line) <= keptLine {
			l.details[m[1]] = l.detail
		}
		return
	}
	if l.detail != nil {
		if line == "failures:" {
			l.detail = nil
			return
		}
		l.held.addLine(l.detail, line)
		return
	}
	l.tail.addLine(line)
	m := l.verdict.FindStringSubmatch(line)
	if m == nil || l.left == 0 || len(line) > keptLine {
		return
	}
	l.left--
	c := Case{ID: l.binary + "::" + m[1], Name: m[1], Suite: l.binary, Status: Passed}
	switch m[2] {
	case "ignored":
		c.Status = Skipped
	case "FAILED":
		if len(l.failed) < maxFailing {
			l.failed = append(l.failed, m[1])
			return // the section with its output comes later
		}
		c.Status = Failed
	}
	l.set.Add(c)
}

// addReport adds the failed tests of a binary once their sections are known.
func (l *Libtest) addReport() {
	for _, test := range l.failed {
		c := Case{ID: l.binary + "::" + test, Name: test, Suite: l.binary, Status: Failed}
		if d := l.details[test]; d != nil {
			l.explainFailure(&c, d.lines)
			c.Detail = strings.TrimSpace(d.joinLines())
		}
		if m := l.doc.FindStringSubmatch(test); m != nil && strings.HasSuffix(l.binary, ":doc") {
			c.File, c.Line = m[1], parseNumber(m[2]) // its panic tells of a file made for the purpose
		}
		l.set.Add(c)
	}
	l.failed, l.detail = nil, nil
	clear(l.details)
	l.held = budget{}
}

func (l *Libtest) explainFailure(c *Case, lines []string) {
	ends := true // whether a line behind the current one may end a message of several lines
	for i, line := range lines {
		if m := l.oldPanic.FindStringSubmatch(line); m != nil {
			c.Message, c.File, c.Line = m[1], m[2], parseNumber(m[3])
			break
		}
		if m := l.oldBegin.FindStringSubmatch(line); m != nil && ends {
			if ends = l.explainLines(c, m[1], lines[i+1:]); ends {
				break
			}
		}
		m := l.panicked.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c.File, c.Line = m[1], parseNumber(m[2])
		for _, more := range lines[i+1:] {
			if more == "" || strings.HasPrefix(more, "note: ") || strings.HasPrefix(more, "stack backtrace:") {
				break
			}
			c.Message += more + "\n"
		}
		break
	}
	c.Message = strings.TrimSpace(c.Message)
	if c.Message == "" {
		c.Message = firstParagraph(strings.Join(lines, "\n"))
	} else if !strings.HasPrefix(c.Message, "assertion") {
		c.Kind = Panic
	}
}

// explainLines reads the rest of a message of several lines, whose last line names the place. It reports whether there is
// such a line.
func (l *Libtest) explainLines(c *Case, message string, rest []string) bool {
	for i, line := range rest {
		if m := l.oldEnd.FindStringSubmatch(line); m != nil {
			c.Message = strings.Join(append(append([]string{message}, rest[:i]...), m[1]), "\n")
			c.File, c.Line = m[2], parseNumber(m[3])
			return true
		}
	}
	return false
}

// endRun closes a binary that said no result: it died.
func (l *Libtest) endRun() {
	if l.left < 0 {
		return
	}
	l.addReport()
	for i := range l.left {
		l.set.Add(Case{Name: fmt.Sprintf("test %d of %d", l.planned-l.left+i+1, l.planned), Suite: l.binary, Status: NotRun})
	}
	c := Case{ID: l.binary, Name: l.binary, Suite: l.binary, Status: Errored, Kind: Panic, Package: true, Message: "the process died before its tests ended"}
	for _, line := range l.tail.lines {
		if strings.Contains(line, "(signal: ") || strings.HasPrefix(line, "fatal runtime error") || strings.Contains(line, "has overflowed its stack") {
			c.Message = strings.TrimSpace(line)
		}
	}
	l.explainDeath(&c)
	c.Detail = l.tail.joinLines()
	l.set.Add(c)
	l.left = -1
}

func (l *Libtest) explainDeath(c *Case) {
	for _, line := range l.tail.lines {
		if m := l.panicked.FindStringSubmatch(line); m != nil {
			c.File, c.Line = m[1], parseNumber(m[2])
		}
	}
}

// Done closes an open binary.
func (l *Libtest) Done() {
	l.endRun()
	l.build.Done()
}
