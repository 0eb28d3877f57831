package results

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// places finds file and line in the output of languages. It belongs to one report and not to the package: a global pattern
// is compiled at the start of every skill.
type places struct{ js, rb, cs, java, php, py, perl, c, rust *regexp.Regexp }

func newPlaces() *places {
	return &places{
		js:   regexp.MustCompile(`(?:file://)?((?:/|[A-Za-z]:[\\/])?[^\s:()'"❯]+\.[cm]?[jt]sx?):(\d+)(?::\d+)?`),
		rb:   regexp.MustCompile(`([^\s:'"()#]+\.rb):(\d+)`),
		cs:   regexp.MustCompile(`(?m) in (.+?):(?:line|Zeile|ligne) (\d+)`),
		java: regexp.MustCompile(`(?m)^\s*at (?:[^\s(]*/)?([\w$.]+)\.[\w$<>]+\(([\w$]+\.(?:java|kt|groovy|scala)):(\d+)\)`),
		php:  regexp.MustCompile(`(?m)^(\S+\.php):(\d+)$`),
		py:   regexp.MustCompile(`(?m)^([^\s:"]+\.py):(\d+): ?`),
		c:    regexp.MustCompile(`([^\s:('"]+\.(?:c|cc|cpp|cxx|h|hh|hpp|m|mm|f90|cu)):(\d+)`),
		rust: regexp.MustCompile(`(?m)panicked at (\S+\.rs):(\d+)(?::\d+)?:?$`),
		perl: regexp.MustCompile(`(?:in test file (.+?), line (\d+)|in file (.+?), line (\d+)|at (\S+) line (\d+))`),
	}
}

func parseNumber(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0 // more digits than any file has lines
	}
	return n
}

// lineIn is the line of the first frame in file, whose name may be written shorter in the stack; 0 for none.
func (p *places) lineIn(text, file string) int {
	for _, m := range p.js.FindAllStringSubmatch(text, 64) {
		if name := strings.TrimPrefix(m[1], "./"); file != "" && (name == file || strings.HasSuffix(file, "/"+name)) {
			return parseNumber(m[2])
		}
	}
	return 0
}

// ownFrames drops the lines of a JavaScript stack that are not the project's. Frames begin with prefix.
func ownFrames(text, prefix string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimLeft(line, " \t"), prefix) || !strings.Contains(line, "node_modules/") && !strings.Contains(line, "node:") {
			kept = append(kept, line)
		}
	}
	return strings.TrimRight(strings.Join(kept, ""), "\n")
}

// thrownText returns the text before the stack of a JavaScript error.
func thrownText(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\n")
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), "at ") || len(kept) == 6 {
			break
		}
		if line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// ownFrame is the first place in a stack of JavaScript that is the project's own.
func (p *places) ownFrame(text string) (file string, line int) {
	for _, m := range p.js.FindAllStringSubmatch(text, 64) {
		if !strings.Contains(m[1], "node_modules/") && !strings.HasPrefix(m[1], "node:") && !strings.HasPrefix(m[1], "internal/") {
			return m[1], parseNumber(m[2])
		}
	}
	return "", 0
}

func (p *places) rubyFrame(text string) (file string, line int) {
	if m := p.rb.FindStringSubmatch(text); m != nil {
		return strings.TrimPrefix(m[1], "./"), parseNumber(m[2])
	}
	return "", 0
}

func (p *places) dotnetFrame(stack string) (file string, line int) {
	if m := p.cs.FindStringSubmatch(stack); m != nil {
		return strings.TrimSpace(m[1]), parseNumber(m[2])
	}
	return "", 0
}

// perlPlace returns the place in a diagnostic of bats or Perl after a failed test.
func (p *places) perlPlace(text string) (file string, line int) {
	m := p.perl.FindStringSubmatch(text)
	if m == nil {
		return "", 0
	}
	return m[1] + m[3] + m[5], parseNumber(m[2] + m[4] + m[6])
}

// Locator finds the place of a failure in its message and detail, for formats that give none. One belongs to one run.
type Locator struct{ p *places }

// NewLocator makes one.
func NewLocator() *Locator { return &Locator{newPlaces()} }

// Java sets the file, as package/Class.java, and the line of the frame in the test's own class.
func (l *Locator) Java(c *Case) {
	for _, m := range l.p.java.FindAllStringSubmatch(c.Detail, 256) {
		if class, _, _ := strings.Cut(m[1], "$"); class == c.Suite {
			c.File = path.Join(path.Dir(strings.ReplaceAll(class, ".", "/")), m[2])
			c.Line = parseNumber(m[3])
			return
		}
	}
}

// C sets file and line where the output names a source file, as assert and most libraries for tests do.
func (l *Locator) C(c *Case) {
	if m := l.p.c.FindStringSubmatch(c.Detail); m != nil && c.File == "" {
		c.File, c.Line = m[1], parseNumber(m[2])
	}
}

// Rust sets file and line of the panic, and takes its text for the message.
func (l *Locator) Rust(c *Case) {
	m := l.p.rust.FindStringSubmatchIndex(c.Detail)
	if m == nil || !c.Failing() {
		return
	}
	c.File, c.Line = c.Detail[m[2]:m[3]], parseNumber(c.Detail[m[4]:m[5]])
	if message := firstParagraph(c.Detail[m[1]:]); message != "" {
		c.Message = message
		if strings.HasPrefix(message, "assertion") {
			c.Kind = Assertion
		}
	}
}

// PHP sets the line of the last frame in the test's own file; phpunit's report gives that of the definition.
func (l *Locator) PHP(c *Case) {
	for _, m := range l.p.php.FindAllStringSubmatch(c.Detail, 256) {
		if c.File == "" || m[1] == c.File {
			c.File, c.Line = m[1], parseNumber(m[2])
		}
	}
}

// Python sets the line where pytest says that a test ended: "tests/test_a.py:12: AssertionError". The report gives the
// line of the definition, counted from 0.
func (l *Locator) Python(c *Case) {
	if c.Line > 0 || c.File != "" {
		c.Line++
	}
	for _, m := range l.p.py.FindAllStringSubmatch(c.Detail, 256) {
		if c.File == "" || m[1] == c.File {
			c.File, c.Line = m[1], parseNumber(m[2])
		}
	}
}
