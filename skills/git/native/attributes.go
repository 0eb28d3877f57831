package native

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/ignore"
)

const attributesFile = ".gitattributes"

// attributes are the lines of attributes files that may hold for a folder. The engine converts nothing: it errs on the
// side of refusing, and takes every matching line to hold, whether or not a later one takes it back.
type attributes []attributeLine

// attributeLine is a pattern and the conversion of the files that it matches.
type attributeLine struct {
	files *ignore.Rules // nil matches every file
	conversion
}

// conversion is a change of content on checkout or staging.
type conversion struct {
	always string // a conversion in both directions
	filter string // a filter, which this engine's clones do without, as git does where it is not configured
	text   bool   // line ends are converted on the way in
	auto   bool   // line ends are converted on the way in, unless the content is binary
	binary bool   // lines are not counted
}

// withFile returns the attributes with those of a folder's file.
func (a attributes) withFile(dir string, data []byte) attributes {
	a = slices.Clip(a) // others append to it as well
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		pattern, words := cutPattern(line)
		l := attributeLine{conversion: parseConversion(words)}
		if l.conversion == (conversion{}) {
			continue
		}
		// A quoted pattern and the definition of a macro are taken to match everything.
		if pattern[0] != '"' && !strings.HasPrefix(pattern, "[attr]") {
			l.files = (*ignore.Rules)(nil).With(dir, []byte(pattern+"\n"))
		}
		a = append(a, l)
	}
	return a
}

// cutPattern cuts the pattern off a line, with its quotes.
func cutPattern(line string) (pattern, words string) {
	for i := 1; i < len(line) && line[0] == '"'; i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return line[:i+1], line[i+1:]
		}
	}
	end := strings.IndexAny(line, " \t\r")
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:]
}

func parseConversion(words string) (c conversion) {
	for word := range strings.FieldsSeq(words) {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "filter" && value != "":
			c.filter = "the filter " + value
		case name == "working-tree-encoding" && value != "":
			c.always = "the encoding " + value
		case name == "ident":
			c.always = "the expansion of $Id$"
		case word == "eol=crlf":
			c.always = "the conversion of line ends"
		case word == "text=auto" || word == "crlf=auto":
			c.auto = true
		case name == "text" || name == "crlf" || name == "eol":
			c.text = true
		case word == "-diff" || word == "binary":
			c.binary = true
		}
	}
	return c
}

// joinAttributes joins the attributes of a file.
func (a attributes) joinAttributes(path string) (all conversion) {
	for _, l := range a {
		if l.files != nil && !l.files.Match(path, false) {
			continue
		}
		all.always, all.filter = all.always+l.always, all.filter+l.filter
		all.text, all.auto, all.binary = all.text || l.text, all.auto || l.auto, all.binary || l.binary
	}
	return all
}

// checkIn refuses content that git would convert before it stores it; content is called only where it matters.
func (c conversion) checkIn(path string, content func() ([]byte, error)) error {
	if what := c.always + c.filter; what != "" {
		return refuseConversion(path, what)
	}
	if !c.text && !c.auto {
		return nil
	}
	data, err := content()
	if err != nil {
		return err
	}
	if bytes.Contains(data, []byte("\r\n")) && (c.text || bytes.IndexByte(data, 0) < 0) {
		return refuseConversion(path, "the conversion of line ends")
	}
	return nil
}

func refuseConversion(path, what string) error {
	return engine.Refuse(what + ", which the attributes of " + path + " ask for")
}
