package native

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/ignore"
)

// attributesFile is where a folder keeps its attributes.
const attributesFile = ".gitattributes"

// attributes answers which conversions git would make of a file. The engine makes none: where one would change the
// content it refuses.
type attributes struct {
	read   func(name string) []byte // a file of the tree, nothing where there is none
	config engine.Config
	info   []rule // of info/attributes, which decide over all others
	dirs   map[string][]rule
	macros map[string][]assignment
}

// rule is one line: files and what is said of them.
type rule struct {
	files *ignore.Rules
	says  []assignment
}

// assignment is one attribute: "" for set, "-" for unset, "!" for unspecified, else "=value".
type assignment struct{ name, state string }

func newAttributes(config engine.Config, info []byte, read func(name string) []byte) *attributes {
	a := &attributes{
		read: read, config: config, dirs: map[string][]rule{},
		macros: map[string][]assignment{"binary": {{"diff", "-"}, {"merge", "-"}, {"text", "-"}}},
	}
	a.info = a.parse("", info, true)
	return a
}

// parse reads a file of attributes. Macros may be made at the root alone.
func (a *attributes) parse(dir string, data []byte, root bool) []rule {
	var rules []rule
	if len(data) > ignore.MaxFile {
		return nil
	}
	for line := range strings.Lines(string(bytes.TrimPrefix(data, []byte("\uFEFF")))) {
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		if line == "" || line[0] == '#' || strings.ContainsRune(line, 0) {
			continue
		}
		pattern, rest := cutPattern(line)
		var says []assignment
		for _, word := range strings.Fields(rest) {
			says = append(says, parseAssignment(word))
		}
		if macro, ok := strings.CutPrefix(pattern, "[attr]"); ok {
			if root {
				a.macros[macro] = says
			}
			continue
		}
		if pattern == "" || pattern[0] == '!' {
			continue
		}
		rules = append(rules, rule{(*ignore.Rules)(nil).With(dir, []byte(escapeBlanks(pattern))), says})
	}
	return rules
}

// cutPattern takes the pattern off a line; it may be quoted.
func cutPattern(line string) (pattern, rest string) {
	if line[0] != '"' {
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			return line[:i], line[i:]
		}
		return line, ""
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch c := line[i]; c {
		case '"':
			return b.String(), line[i+1:]
		case '\\':
			if i++; i < len(line) {
				b.WriteByte(line[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "" // no end: git takes the line as it is, which matches nothing
}

// escapeBlanks keeps blanks at the end, which a pattern of ignored files loses.
func escapeBlanks(pattern string) string {
	if strings.HasSuffix(pattern, " ") {
		return strings.ReplaceAll(pattern, " ", `\ `)
	}
	return pattern
}

func parseAssignment(word string) assignment {
	switch word[0] {
	case '-', '!':
		return assignment{word[1:], word[:1]}
	}
	name, value, valued := strings.Cut(word, "=")
	if valued {
		return assignment{name, "=" + value}
	}
	return assignment{name, ""}
}

// of returns what is said of a file: a state for each attribute that is specified.
func (a *attributes) of(name string) map[string]string {
	said := map[string]string{}
	decided := map[string]bool{}
	a.ask(a.info, name, said, decided)
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if dir == "." {
			dir = ""
		}
		rules, ok := a.dirs[dir]
		if !ok {
			rules = a.parse(dir, a.read(path.Join(dir, attributesFile)), dir == "")
			a.dirs[dir] = rules
		}
		a.ask(rules, name, said, decided)
		if dir == "" {
			return said
		}
	}
}

// ask lets rules decide what is open yet, the last line first.
func (a *attributes) ask(rules []rule, name string, said map[string]string, decided map[string]bool) {
	for i := len(rules) - 1; i >= 0; i-- {
		if !rules[i].files.Match(name, false) {
			continue
		}
		for j := len(rules[i].says) - 1; j >= 0; j-- {
			a.assign(rules[i].says[j], said, decided, 0)
		}
	}
}

func (a *attributes) assign(s assignment, said map[string]string, decided map[string]bool, depth int) {
	if decided[s.name] || depth > 8 {
		return
	}
	decided[s.name] = true
	if s.state != "!" {
		said[s.name] = s.state
	}
	if s.state == "" {
		for i := len(a.macros[s.name]) - 1; i >= 0; i-- {
			a.assign(a.macros[s.name][i], said, decided, depth+1)
		}
	}
}

// conversion says what git would do to a file's content, as far as that is not known before its content is.
type conversion struct {
	refuse   string // it would for certain; why
	text     bool   // line ends may be converted
	auto     bool   // only where the content looks like text
	toDisk   bool   // LF becomes CRLF on the way out
	keywords bool   // $Id$ is expanded
}

// conversionOf judges a file by attributes and configuration.
func (a *attributes) conversionOf(name string) conversion {
	said := a.of(name)
	var c conversion
	if f, ok := said["filter"]; ok && strings.HasPrefix(f, "=") {
		c.refuse = "the filter " + f[1:]
	}
	if f, ok := said["working-tree-encoding"]; ok && strings.HasPrefix(f, "=") {
		c.refuse = "the encoding " + f[1:]
	}
	_, c.keywords = said["ident"]
	c.keywords = c.keywords && said["ident"] == ""
	autocrlf, _ := a.config.Value("core", "", "autocrlf")
	auto := strings.EqualFold(autocrlf, "true") || strings.EqualFold(autocrlf, "input") || autocrlf == "1" || strings.EqualFold(autocrlf, "yes") || strings.EqualFold(autocrlf, "on")
	text, known := said["text"]
	if !known {
		text, known = said["crlf"]
	}
	eol, hasEOL := said["eol"]
	c.text = known && text != "-" || !known && (hasEOL || auto)
	c.auto = text == "=auto" || !known && !hasEOL
	if c.auto = c.auto && c.text; c.text {
		coreEOL, _ := a.config.Value("core", "", "eol")
		switch {
		case hasEOL:
			c.toDisk = eol == "=crlf"
		case strings.EqualFold(autocrlf, "input"):
		case auto:
			c.toDisk = true
		default:
			c.toDisk = strings.EqualFold(coreEOL, "crlf")
		}
	}
	return c
}

// trivial reports whether no content is converted.
func (c conversion) trivial() bool { return c == conversion{} }

// convertsIn reports whether git would store something else than data.
func (c conversion) convertsIn(data []byte) string {
	switch {
	case c.refuse != "":
		return c.refuse
	case c.text && bytes.Contains(data, []byte("\r\n")) && !(c.auto && looksBinary(data)):
		return "the conversion of line ends"
	case c.keywords && bytes.Contains(data, []byte("$Id")):
		return "the expansion of $Id$"
	}
	return ""
}

// convertsOut reports whether git would write something else than data to disk.
func (c conversion) convertsOut(data []byte) string {
	switch {
	case strings.HasPrefix(c.refuse, "the encoding"):
		return c.refuse
	case c.toDisk && bytes.IndexByte(data, '\n') >= 0 && !(c.auto && looksBinary(data)):
		return "the conversion of line ends"
	case c.keywords && bytes.Contains(data, []byte("$Id")):
		return "the expansion of $Id$"
	}
	return ""
}

// unconverted is the error of a file that git would convert.
func unconverted(name, what string) error {
	return engine.Refuse(engine.Native, fmt.Sprintf("%s that the attributes of %s ask for", what, name))
}

// looksBinary is git's guess when it may convert only text: a NUL, a CR by itself, or more than one in 128 characters that
// no text has.
func looksBinary(data []byte) bool {
	printable, odd := 0, 0
	for i, c := range data {
		switch {
		case c == 0, c == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			return true
		case c == '\r', c == '\n':
		case c == 127, c < 32 && c != '\b' && c != '\t' && c != 27 && c != '\f':
			odd++
		default:
			printable++
		}
	}
	if n := len(data); n > 0 && data[n-1] == 26 {
		odd--
	}
	return printable>>7 < odd
}
