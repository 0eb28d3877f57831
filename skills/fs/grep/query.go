// Package grep finds the lines of files that match a literal text or a regular expression (RE2 syntax). Compile makes a
// Matcher from a Query, and a Scanner runs it over one file after the other.
//
// It is fast because it looks at lines only where something may be: a literal is searched in whole blocks, of a regular
// expression first a literal that every match must contain, and where there is none the sieve, a small automaton, picks
// the lines that the expression is asked about. Memory is bounded by the block: a Scanner grows its own up to MaxBlock
// for long lines, and breaks lines that are longer. The package opens no file.
package grep

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Query describes a search.
type Query struct {
	Pattern    string
	Regexp     bool // the pattern is a regular expression, otherwise a literal text
	IgnoreCase bool
	Word       bool // the match is no part of a larger word (ASCII letters, digits and underscore)
}

// maxPattern is how long a pattern may be, in bytes.
const maxPattern = 4096

// Matcher finds matches. It may be used concurrently.
type Matcher struct {
	needs []needle       // every match contains one of these; nil when that is not known
	exact bool           // the one need is all there is to match
	word  bool           // for exact
	re    *regexp.Regexp // for one line, without its end
	prog  *syntax.Prog   // of re, where needs are not known
}

// Compile returns an error for an invalid pattern, and for one that could match the end of a line.
func Compile(q Query) (*Matcher, error) {
	switch {
	case q.Pattern == "":
		return nil, errors.New("is empty")
	case len(q.Pattern) > maxPattern:
		return nil, fmt.Errorf("has more than %d bytes", maxPattern)
	case !q.Regexp && strings.ContainsAny(q.Pattern, "\n\r"):
		return nil, errors.New("holds a line break, and lines are searched one by one")
	}
	text, before, after := q.Pattern, `\b`, `\b`
	if !q.Regexp {
		if !q.IgnoreCase || isASCII(text) {
			return &Matcher{needs: []needle{newNeedle(text, q.IgnoreCase)}, exact: true, word: q.Word}, nil
		}
		if !wordAt([]byte(text), 0) { // in front of such a character, \b requires a letter
			before = `\B`
		}
		if !wordAt([]byte(text), len(text)-1) {
			after = `\B`
		}
		text = regexp.QuoteMeta(text)
	}
	if q.Word {
		text = before + `(?:` + text + `)` + after
	}
	if q.IgnoreCase {
		text = "(?i)" + text
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		if serr, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, fmt.Errorf("is no regular expression: %s: %q", serr.Code, serr.Expr)
		}
		return nil, fmt.Errorf("is no regular expression: %w", err)
	}
	m := &Matcher{}
	if m.re, err = regexp.Compile(text); err != nil {
		return nil, fmt.Errorf("is no regular expression: %w", err)
	}
	tree = tree.Simplify()
	if m.needs = requiredLiterals(tree); m.needs == nil {
		if m.prog, err = syntax.Compile(tree); err != nil {
			return nil, fmt.Errorf("is no regular expression: %w", err)
		}
	}
	return m, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Next finds the first match in block[from:] that lies within one line, where from is the beginning of a line and block
// ends with one. start is -1 when there is none.
func (m *Matcher) Next(block []byte, from int, c *cursor) (start, end int) {
	if m.exact {
		return m.findLiteral(block, from)
	}
	for from < len(block) {
		at := c.nextCandidate(m, block, from)
		if at < 0 {
			break
		}
		line := bytes.LastIndexByte(block[:at], '\n') + 1
		to, next := lineEnd(block, at)
		if found := m.re.FindIndex(block[line:to]); found != nil {
			return line + found[0], line + found[1]
		}
		from = next
	}
	return -1, -1
}

func (m *Matcher) findLiteral(block []byte, from int) (start, end int) {
	n := &m.needs[0]
	for {
		i := n.indexIn(block[from:])
		if i < 0 {
			return -1, -1
		}
		start, end = from+i, from+i+len(n.text)
		if !m.word || !wordAt(block, start-1) && !wordAt(block, end) {
			return start, end
		}
		from = start + 1
	}
}

func wordAt(b []byte, i int) bool {
	return 0 <= i && i < len(b) && (b[i] == '_' || '0' <= b[i] && b[i] <= '9' || 'a' <= b[i]|0x20 && b[i]|0x20 <= 'z')
}

// lineEnd returns the end of the line around at, without and with its line end.
func lineEnd(block []byte, at int) (end, next int) {
	i := bytes.IndexByte(block[at:], '\n')
	if i < 0 {
		end, next = len(block), len(block)
	} else {
		end, next = at+i, at+i+1
	}
	if end > at && block[end-1] == '\r' {
		end--
	}
	return end, next
}
