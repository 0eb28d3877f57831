package flowline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// piece is a part of a text: literal text, or a reference.
type piece struct{ text, ref string }

var stepRef = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$[A-Za-z][A-Za-z0-9_]*`) })

// parseValue parses a text and returns it as a value expression.
func (p *lineParser) parseValue() (json.RawMessage, bool) {
	var pieces []piece
	add := func(q piece) {
		if n := len(pieces); n > 0 && pieces[n-1].ref == "" && q.ref == "" {
			pieces[n-1].text += q.text
		} else {
			pieces = append(pieces, q)
		}
	}
	for !p.atWordEnd() {
		switch p.text[p.at] {
		case '\'':
			end := strings.IndexByte(p.text[p.at+1:], '\'')
			if end < 0 {
				p.addError(span{p.at, len(p.text)}, "quote_open", "close it with '", "the quote that begins here does not end")
				return nil, false
			}
			add(piece{text: p.text[p.at+1 : p.at+1+end]})
			p.at += end + 2
		case '"':
			inner, ok := p.parseQuoted()
			if !ok {
				return nil, false
			}
			for _, q := range inner {
				add(q)
			}
		case '\\':
			if p.at++; p.at >= len(p.text) {
				p.addError(span{p.at - 1, p.at}, "quote_open", `write \\ for a backslash`, "nothing follows the backslash")
				return nil, false
			}
			_, size := utf8.DecodeRuneInString(p.text[p.at:])
			add(piece{text: p.text[p.at : p.at+size]})
			p.at += size
		case '$':
			q, ok := p.parseRef()
			if !ok {
				return nil, false
			}
			add(q)
		default:
			add(piece{text: p.scanPlain(" \t\r\n|'\"\\$")})
		}
	}
	return joinPieces(pieces), true
}

// parseQuoted reads text in double quotes.
func (p *lineParser) parseQuoted() (pieces []piece, ok bool) {
	start := p.at
	p.at++
	pieces = []piece{{}} // "" is text, too
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return pieces, true
		case c == '\\' && p.at+1 < len(p.text) && strings.IndexByte(`"\$`, p.text[p.at+1]) >= 0:
			pieces = append(pieces, piece{text: p.text[p.at+1 : p.at+2]})
			p.at += 2
		case c == '$':
			q, ok := p.parseRef()
			if !ok {
				return nil, false
			}
			pieces = append(pieces, q)
		case c == '\\':
			pieces = append(pieces, piece{text: `\`})
			p.at++
		default:
			pieces = append(pieces, piece{text: p.scanPlain(`"\$`)})
		}
	}
	p.addError(span{start, len(p.text)}, "quote_open", `close it with "`, "the quote that begins here does not end")
	return nil, false
}

// scanPlain reads up to the next of the special characters, at least one character.
func (p *lineParser) scanPlain(special string) string {
	start := p.at
	if n := strings.IndexAny(p.text[start:], special); n >= 0 {
		p.at += n
	} else {
		p.at = len(p.text)
	}
	return p.text[start:p.at]
}

// parseRef parses a reference, or a literal dollar sign.
func (p *lineParser) parseRef() (piece, bool) {
	start, rest := p.at, p.text[p.at:]
	if strings.HasPrefix(rest, "${") {
		end := strings.IndexByte(rest, '}')
		name := ""
		if end > 0 {
			name = stepRef().FindString("$" + rest[2:end])
		}
		if name == "" || expr.RefAt("$vars"+rest[1+len(name):end]) != "$vars"+rest[1+len(name):end] {
			p.addError(span{start, start + max(2, end+1)}, "ref_invalid", "${in.name} or ${git_clone.head}; single quotes keep a $ as it is", "this is not a reference")
			return piece{}, false
		}
		p.at += end + 1
		return piece{ref: p.resolveName(name[1:], rest[1+len(name):end], span{start, p.at})}, true
	}
	name := stepRef().FindString(rest)
	if name == "" {
		p.at++
		return piece{text: "$"}, true
	}
	path := expr.RefAt("$vars" + rest[len(name):])[len("$vars"):]
	p.at += len(name) + len(path)
	return piece{ref: p.resolveName(name[1:], path, span{start, p.at})}, true
}

// resolveName returns the reference for the name of a namespace or of an earlier step, followed by a path.
func (p *lineParser) resolveName(name, path string, s span) string {
	if slices.Contains([]string{"in", "vars", "tmp", "ctx"}, name) {
		return "$" + name + path
	}
	if !slices.Contains(p.ids, name) {
		known := append([]string{"in", "ctx"}, p.ids...)
		hint := "$in." + name + " is an input of the flow; single quotes keep a $ as it is"
		if len(p.ids) > 0 {
			hint = finding.Near(name, known) + "; " + hint
		}
		p.addError(s, "ref_invalid", strings.TrimPrefix(hint, "; "), "no step before this one is called %q", name)
	}
	return "$vars." + name + path
}

// joinPieces returns pieces as a value expression.
func joinPieces(pieces []piece) json.RawMessage {
	var parts []string
	for _, q := range pieces {
		switch {
		case q.ref != "":
			parts = append(parts, string(quoteJSON(q.ref)))
		case q.text != "":
			parts = append(parts, string(quoteJSON(escapeText(q.text))))
		}
	}
	switch len(parts) {
	case 0:
		return json.RawMessage(`""`)
	case 1:
		return json.RawMessage(parts[0])
	}
	return json.RawMessage(`{"concat":[` + strings.Join(parts, ",") + `]}`)
}

// escapeText writes text so that no value expression takes it for a reference.
func escapeText(s string) string {
	if len(s) > 1 && s[0] == '$' && (s[1] == '$' || s[1]|0x20 >= 'a' && s[1]|0x20 <= 'z') {
		return "$" + s
	}
	return s
}
