package unified

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Section is the part of a patch that is about one file, as it is written. Names are neither unquoted nor stripped: Parse
// and package patch of the git skills read them, each by the rules of the program that applies the patch.
type Section struct {
	Git         bool   // it begins with "diff --git"
	Both        string // the two names of that line
	Minus, Plus string // the names of the lines --- and +++
	From, To    string // the names of a rename or copy
	Copy        bool   // From and To are a copy

	OldMode, Mode string // octal digits, "" when the patch does not name them
	Made, Gone    bool   // there are lines "new file mode" or "deleted file mode"
	Binary        bool
	Hunks         []Hunk

	Line       int // of its first line, from 1
	MinusLine  int // of its line ---, 0 when there is none
	PlusLine   int
	BinaryLine int
	EndLine    int  // of the line after it
	Extra      bool // a line of a hunk follows the hunks, so that their counts may be wrong
	Start, End int  // offsets in the patch, in bytes
}

// Sections splits a patch into its files. It skips text before and between them, such as the message of a commit, and
// counts the lines of a hunk, so that content is never taken for a header. After an error the last section holds the lines that were
// read before it.
func Sections(patch string) ([]Section, error) {
	p := parser{lines: splitLines(patch)}
	var all []Section
	for p.at < len(p.lines) {
		line := p.line()
		s := Section{Line: p.at + 1, Start: p.offset}
		switch {
		case strings.HasPrefix(line, "diff --git "):
			s.Git, s.Both = true, strings.TrimPrefix(line, "diff --git ")
			p.next()
			p.readHeader(&s)
		case strings.HasPrefix(line, "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ "):
			p.readHeader(&s)
		case strings.HasPrefix(line, "@@ -"):
			if n := len(all); n > 0 && all[n-1].Extra {
				return all, all[n-1].tooLong()
			}
			return all, p.fail("a hunk without the lines --- and +++ before it")
		default:
			p.next()
			continue
		}
		err := p.readBody(&s)
		s.End, s.EndLine = p.offset, p.at+1
		if all = append(all, s); err != nil {
			return all, err
		}
	}
	return all, nil
}

// parser reads a patch line by line.
type parser struct {
	lines  []string
	at     int
	offset int // of the line in bytes
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{p.at + 1, fmt.Sprintf(format, args...)}
}

// line returns the current line without its end, "" at the end of the patch.
func (p *parser) line() string {
	if p.at >= len(p.lines) {
		return ""
	}
	return strings.TrimRight(p.lines[p.at], "\r\n")
}

// next moves to the next line.
func (p *parser) next() {
	p.offset += len(p.lines[p.at])
	p.at++
}

// headerKeys are the lines between "diff --git" and the first hunk, as git apply knows them.
func headerKeys() []string {
	return []string{
		"old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ", "rename old ", "rename new ", "rename from ",
		"rename to ", "similarity index ", "dissimilarity index ", "index ", "--- ", "+++ ",
	}
}

// readHeader reads the lines before the first hunk. A section without "diff --git" has two of them.
func (p *parser) readHeader(s *Section) {
	for ; p.at < len(p.lines) && (s.Git || s.PlusLine == 0); p.next() {
		key, value := "", ""
		for _, k := range headerKeys() {
			if v, ok := strings.CutPrefix(p.line(), k); ok {
				key, value = k, v
				break
			}
		}
		switch key {
		case "":
			return
		case "old mode ":
			s.OldMode = value
		case "new mode ":
			s.Mode = value
		case "new file mode ":
			s.Mode, s.Made = value, true
		case "deleted file mode ":
			s.OldMode, s.Gone = value, true
		case "copy from ", "rename from ", "rename old ":
			s.From = value
		case "copy to ", "rename to ", "rename new ":
			s.To, s.Copy = value, key == "copy to "
		case "--- ":
			s.Minus, s.MinusLine = value, p.at+1
		case "+++ ":
			s.Plus, s.PlusLine = value, p.at+1
		}
	}
}

// tooLong returns the error for lines of a hunk that follow the last hunk.
func (s Section) tooLong() error {
	return &SyntaxError{s.EndLine, "the hunk has more lines than the counts after @@ say"}
}

// readBody reads the hunks, or skips a binary patch.
func (p *parser) readBody(s *Section) error {
	if s.MinusLine > 0 && s.PlusLine == 0 {
		return &SyntaxError{s.MinusLine + 1, "the line +++ is missing after ---"}
	}
	if line := p.line(); line == "GIT binary patch" || strings.HasPrefix(line, "Binary files ") {
		s.Binary, s.BinaryLine = true, p.at+1
		if p.next(); line == "GIT binary patch" {
			p.skipBinary()
		}
		return nil
	}
	for strings.HasPrefix(p.line(), "@@ -") {
		h, err := p.readHunk()
		s.Hunks = append(s.Hunks, h)
		if err != nil {
			return err
		}
	}
	line := p.line()
	s.Extra = len(s.Hunks) > 0 && line != "" && strings.IndexByte("+- ", line[0]) >= 0 && !strings.HasPrefix(line, "--- ") && line != "-- "
	return nil
}

// skipBinary skips the one or two blocks of a binary patch; an empty line ends each.
func (p *parser) skipBinary() {
	for range 2 {
		if line := p.line(); !strings.HasPrefix(line, "literal ") && !strings.HasPrefix(line, "delta ") {
			return
		}
		for p.at < len(p.lines) {
			empty := p.line() == ""
			if p.next(); empty {
				break
			}
		}
	}
}

func (p *parser) readHunk() (Hunk, error) {
	h := Hunk{Header: p.line(), At: p.at + 1}
	old, new, ok := parseRanges(h.Header)
	if !ok {
		return h, p.fail("%q is not the header of a hunk, such as @@ -1,3 +1,4 @@", h.Header)
	}
	h.OldStart, h.NewStart = old.start, new.start
	p.next()
	for old.count > 0 || new.count > 0 {
		if p.at >= len(p.lines) {
			return h, p.fail("the patch ends in the middle of a hunk: %d old and %d new lines are missing (the counts after @@ may be wrong)", old.count, new.count)
		}
		text := p.lines[p.at]
		op := text[0]
		switch {
		case op == '\n' || text == "\r\n": // an empty line of context that lost its space
			op, text = ' ', " "+text
		case op == '\\':
			p.endWithoutNewline(&h)
			continue
		case op != ' ' && op != '-' && op != '+':
			return h, p.fail("a line of a hunk begins with a space, - or +; %d old and %d new lines are missing (the counts after @@ may be wrong)", old.count, new.count)
		}
		if op != '+' {
			old.count--
		}
		if op != '-' {
			new.count--
		}
		if old.count < 0 || new.count < 0 {
			return h, p.fail("the hunk has more lines than the counts after @@ say")
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n" // the end of the patch was lost; a patch marks a file without newline
		}
		h.Lines = append(h.Lines, Line{op, text[1:]})
		p.next()
	}
	if strings.HasPrefix(p.line(), `\`) {
		p.endWithoutNewline(&h)
	}
	return h, nil
}

// endWithoutNewline reads "\ No newline at end of file", which is about the previous line.
func (p *parser) endWithoutNewline(h *Hunk) {
	if n := len(h.Lines); n > 0 {
		h.Lines[n-1].Text = strings.TrimSuffix(h.Lines[n-1].Text, "\n")
	}
	p.next()
}

type span struct{ start, count int }

// parseRanges reads "@@ -1,3 +1,4 @@ anything".
func parseRanges(header string) (old, new span, ok bool) {
	inner, _, ok := strings.Cut(strings.TrimPrefix(header, "@@ "), " @@")
	before, after, ok2 := strings.Cut(inner, " ")
	if !ok || !ok2 {
		return old, new, false
	}
	old, ok = parseSpan(before, "-")
	new, ok2 = parseSpan(after, "+")
	return old, new, ok && ok2
}

// parseSpan reads "-12,3", or "-12", which is one line.
func parseSpan(text, sign string) (s span, ok bool) {
	text, ok = strings.CutPrefix(text, sign)
	start, count, two := strings.Cut(text, ",")
	if !two {
		count = "1"
	}
	var ok1, ok2 bool
	s.start, ok1 = parseNumber(start)
	s.count, ok2 = parseNumber(count)
	return s, ok && ok1 && ok2 && (s.start > 0 || s.count == 0)
}

// parseNumber reads digits; strconv.Atoi alone would accept a sign.
func parseNumber(text string) (int, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n < 1<<30
}

// Unquote reads a name at the beginning of text as git writes it: in quotes as a C string, or up to the next space.
func Unquote(text string) (name, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		name, rest, _ = strings.Cut(text, " ")
		return name, rest, nil
	}
	var b []byte
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return string(b), text[i+1:], nil
		case '\\':
			if i++; i >= len(text) {
				return "", "", errOpenQuote()
			}
			if j := strings.IndexByte(`abfnrtv"\`, text[i]); j >= 0 {
				b = append(b, "\a\b\f\n\r\t\v\"\\"[j])
				continue
			}
			if i+3 > len(text) {
				return "", "", errOpenQuote()
			}
			octal, err := strconv.ParseUint(text[i:i+3], 8, 8)
			if err != nil {
				return "", "", fmt.Errorf(`a quoted name contains \%s`, text[i:i+3])
			}
			b = append(b, byte(octal))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return "", "", errOpenQuote()
}

func errOpenQuote() error { return errors.New("a quoted name does not end") }
