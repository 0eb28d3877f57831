// Package gitconfig reads the configuration file of a repository as git does, without running anything. Start with Parse;
// Dangerous tells which keys can run programs or send commits elsewhere.
//
// The grammar is git's own, with its oddities: a section may stand on the line of its first key, [a.b] is [a "b"] in
// lower case, values may be quoted in parts, continued over lines and broken off by comments. A text that git refuses is an
// error here; so is a NUL byte, which git would read as the end of a name. Includes are not followed: they are keys
// like others, and a repository that has them is not trusted.
package gitconfig

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Entry is one key with its value, in the order of the file.
type Entry struct {
	// Key is section.name or section.subsection.name; section and name are in lower case.
	Key string
	// Value is "" for a key without "=", which git takes as true; NoValue tells it from an empty one.
	Value   string
	NoValue bool
}

// Config is the content of one or more files, the later ones last.
type Config []Entry

// Value is the last value of a key, "" and false when it is not set. section and name count in any case, the subsection
// does not.
func (c Config) Value(section, subsection, name string) (string, bool) {
	key := joinKey(strings.ToLower(section), subsection, strings.ToLower(name))
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].Key == key {
			return c[i].Value, true
		}
	}
	return "", false
}

// Values are all values of a key, in order.
func (c Config) Values(section, subsection, name string) []string {
	key := joinKey(strings.ToLower(section), subsection, strings.ToLower(name))
	var values []string
	for _, e := range c {
		if e.Key == key {
			values = append(values, e.Value)
		}
	}
	return values
}

// Bool is the last value of a key as git reads switches; a value that is neither true nor false counts as the fallback.
func (c Config) Bool(section, subsection, name string, fallback bool) bool {
	key := joinKey(strings.ToLower(section), subsection, strings.ToLower(name))
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].Key != key {
			continue
		}
		switch strings.ToLower(c[i].Value) {
		case "true", "yes", "on":
			return true
		case "":
			return c[i].NoValue
		case "false", "no", "off":
			return false
		}
		number := strings.TrimRight(c[i].Value, "kKmMgG") // git accepts one unit, and any base
		if n, err := strconv.ParseInt(number, 0, 64); err == nil && len(c[i].Value)-len(number) <= 1 {
			return n != 0
		}
		return fallback
	}
	return fallback
}

func joinKey(section, subsection, name string) string {
	if subsection == "" {
		return section + "." + name
	}
	return section + "." + subsection + "." + name
}

// Parse reads a file's content.
func Parse(data []byte) (Config, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return nil, fmt.Errorf("line %d holds a NUL byte", 1+bytes.Count(data[:i], []byte{'\n'}))
	}
	p := &parser{data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), line: 1}
	return p.parseFile()
}

// parser reads characters as git does: \r\n is \n, and the end of the file reads as \n with eof set.
type parser struct {
	data []byte
	at   int
	line int // of the next character
	eof  bool
}

func (p *parser) nextByte() byte {
	if p.at >= len(p.data) {
		p.eof = true
		return '\n'
	}
	c := p.data[p.at]
	p.at++
	if c == '\r' && p.at < len(p.data) && p.data[p.at] == '\n' {
		c = '\n'
		p.at++
	}
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *parser) parseFile() (Config, error) {
	var config Config
	section, comment, line := "", false, 1
	bad := func() (Config, error) { return nil, fmt.Errorf("line %d is not a line of a git configuration", line) }
	for {
		line = p.line
		c := p.nextByte()
		switch {
		case c == '\n':
			if p.eof {
				return config, nil
			}
			comment = false
		case comment || isSpace(c):
		case c == '#' || c == ';':
			comment = true
		case c == '[':
			var ok bool
			if section, ok = p.parseSection(); !ok {
				return bad()
			}
		case !isAlpha(c) || section == "":
			// A key before the first section has no name to ask for; git reads it, so it is refused.
			return bad()
		default:
			e, ok := p.parseEntry(section, c)
			if !ok {
				return bad()
			}
			config = append(config, e)
		}
	}
}

// parseSection reads the text from "[" to "]".
func (p *parser) parseSection() (string, bool) {
	var name []byte
	for {
		c := p.nextByte()
		switch {
		case p.eof:
			return "", false
		case c == ']':
			return string(name), len(name) > 0
		case isSpace(c):
			return p.parseSubsection(name, c)
		case !isKey(c) && c != '.':
			return "", false
		}
		name = append(name, lowerCase(c))
	}
}

// parseSubsection reads the quoted part of a section's header; its case counts.
func (p *parser) parseSubsection(name []byte, c byte) (string, bool) {
	for isSpace(c) {
		if c == '\n' {
			return "", false
		}
		c = p.nextByte()
	}
	if c != '"' {
		return "", false
	}
	name = append(name, '.')
	for {
		switch c = p.nextByte(); c {
		case '\n':
			return "", false
		case '"':
			return string(name), p.nextByte() == ']'
		case '\\':
			if c = p.nextByte(); c == '\n' {
				return "", false
			}
		}
		name = append(name, c)
	}
}

// parseEntry reads a key that begins with c, and its value.
func (p *parser) parseEntry(section string, c byte) (Entry, bool) {
	name := []byte{lowerCase(c)}
	for c = p.nextByte(); !p.eof && isKey(c); c = p.nextByte() {
		name = append(name, lowerCase(c))
	}
	for c == ' ' || c == '\t' {
		c = p.nextByte()
	}
	e := Entry{Key: section + "." + string(name), NoValue: c == '\n'}
	if e.NoValue {
		return e, true
	}
	if c != '=' {
		return e, false
	}
	var ok bool
	e.Value, ok = p.parseValue()
	return e, ok
}

// parseValue reads up to the end of the line, or of the last one that a backslash continues.
func (p *parser) parseValue() (string, bool) {
	var value []byte
	quote, comment, space := false, false, 0
	for {
		c := p.nextByte()
		switch {
		case c == '\n':
			return string(value), !quote
		case comment:
			continue
		case isSpace(c) && !quote:
			if len(value) > 0 {
				space++ // shows only if something follows
			}
			continue
		case !quote && (c == ';' || c == '#'):
			comment = true
			continue
		}
		for ; space > 0; space-- {
			value = append(value, ' ')
		}
		switch c {
		case '"':
			quote = !quote
			continue
		case '\\':
			switch c = p.nextByte(); c {
			case '\n':
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				return "", false
			}
		}
		value = append(value, c)
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isAlpha(c byte) bool { return 'a' <= lowerCase(c) && lowerCase(c) <= 'z' }
func isKey(c byte) bool   { return isAlpha(c) || '0' <= c && c <= '9' || c == '-' }

func lowerCase(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
