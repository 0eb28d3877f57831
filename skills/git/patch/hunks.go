package patch

import (
	"strconv"
	"strings"
)

// hunks reads what follows a header: hunks, or a binary patch, or nothing.
func (p *parser) hunks(f *File) error {
	if line := p.peek(); p.more() && (line == "GIT binary patch" || strings.HasPrefix(line, "Binary files ")) {
		f.Binary = true
		if p.next(); line == "GIT binary patch" {
			p.binary()
		}
		return nil
	}
	for p.more() && strings.HasPrefix(p.peek(), "@@ -") {
		h, ok := hunkHeader(p.peek())
		if !ok {
			return p.fail("%q is not the head of a hunk", p.peek())
		}
		p.next()
		if err := p.body(h); err != nil {
			return err
		}
		f.Hunks = append(f.Hunks, h)
	}
	return nil
}

// binary skips the one or two blocks of a binary patch, each of which an empty line ends.
func (p *parser) binary() {
	for range 2 {
		if line := p.peek(); !strings.HasPrefix(line, "literal ") && !strings.HasPrefix(line, "delta ") {
			return
		}
		for p.more() && p.next() != "" {
		}
	}
}

// body skips the lines of a hunk, which its head has counted.
func (p *parser) body(h Hunk) error {
	old, now := h.OldLines, h.NewLines
	for old > 0 || now > 0 {
		if !p.more() {
			return p.fail("the hunk has fewer lines than its head says")
		}
		switch line := p.peek(); {
		case line == "" || line[0] == ' ':
			old, now = old-1, now-1
		case line[0] == '-':
			old--
		case line[0] == '+':
			now--
		case line[0] == '\\':
		default:
			return p.fail("%.40q is not a line of a hunk: each begins with a space, + or -", line)
		}
		if old < 0 || now < 0 {
			return p.fail("the hunk has more lines than its head says")
		}
		p.next()
	}
	if p.more() && strings.HasPrefix(p.peek(), `\ `) {
		p.next()
	}
	return nil
}

// hunkHeader reads "@@ -12,3 +12,4 @@ anything".
func hunkHeader(line string) (h Hunk, ok bool) {
	inner, _, ok := strings.Cut(strings.TrimPrefix(line, "@@ "), " @@")
	before, after, ok2 := strings.Cut(inner, " ")
	if !ok || !ok2 {
		return h, false
	}
	if h.OldStart, h.OldLines, ok = span(before, "-"); !ok {
		return h, false
	}
	h.NewStart, h.NewLines, ok = span(after, "+")
	return h, ok
}

// span reads "-12,3" or "-12", which is one line.
func span(text, sign string) (start, lines int, ok bool) {
	text, ok = strings.CutPrefix(text, sign)
	from, count, more := strings.Cut(text, ",")
	if !more {
		count = "1"
	}
	start, ok1 := number(from)
	lines, ok2 := number(count)
	return start, lines, ok && ok1 && ok2
}

// number reads digits alone: Atoi would take a sign.
func number(text string) (int, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n < 1<<31
}
