package unified

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a patch. Text around the diffs, such as the message of a commit, is skipped. A patch without any diff is an
// error, and so is a binary one.
func Parse(patch string) ([]File, error) {
	p := parser{lines: splitLines(patch)}
	var files []File
	for p.at < len(p.lines) {
		f, err := p.file()
		if err != nil {
			return nil, err
		}
		if f != nil {
			files = append(files, *f)
		}
	}
	if len(files) == 0 {
		return nil, &SyntaxError{1, "there is no diff in it: a line with --- and one with +++ must come before the first @@"}
	}
	return files, nil
}

type parser struct {
	lines []string
	at    int
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{p.at + 1, fmt.Sprintf(format, args...)}
}

// line is the line at hand without its end, "" at the end of the patch.
func (p *parser) line() string {
	if p.at >= len(p.lines) {
		return ""
	}
	return strings.TrimRight(p.lines[p.at], "\r\n")
}

// file reads from the line at hand to the end of the next diff; nil when that line belongs to none.
func (p *parser) file() (*File, error) {
	switch line := p.line(); {
	case strings.HasPrefix(line, "diff --git "):
		return p.git(strings.TrimPrefix(line, "diff --git "))
	case strings.HasPrefix(line, "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ "):
		f := new(File)
		return f, p.body(f)
	case strings.HasPrefix(line, "@@ -"):
		return nil, p.fail("a hunk without the lines --- and +++ before it")
	}
	p.at++
	return nil, nil
}

// git reads the headers that git writes before the rest.
func (p *parser) git(paths string) (*File, error) {
	f := &File{Action: Modify}
	begin := p.at
	for p.at++; p.at < len(p.lines); p.at++ {
		key, value := p.line(), ""
		for _, known := range []string{
			"old mode", "new mode", "deleted file mode", "new file mode", "copy from", "copy to", "rename from", "rename to",
			"similarity index", "dissimilarity index", "index",
		} {
			if rest, ok := strings.CutPrefix(key, known+" "); ok {
				key, value = known, rest
				break
			}
		}
		var err error
		switch key {
		case "new file mode":
			f.Action, f.Mode = Create, value
		case "deleted file mode":
			f.Action, f.OldMode = Delete, value
		case "old mode":
			f.OldMode = value
		case "new mode":
			f.Mode = value
		case "rename from", "copy from":
			f.Old, err = p.path(value)
			f.stripped = true
		case "rename to", "copy to":
			f.New, err = p.path(value)
			f.Action = Rename
			if key == "copy to" {
				f.Action = Copy
			}
		case "similarity index", "dissimilarity index", "index":
		default:
			if strings.HasPrefix(key, "Binary files ") || key == "GIT binary patch" {
				return nil, p.fail("a binary diff")
			}
			if strings.HasPrefix(key, "--- ") {
				return f, p.body(f)
			}
			// Mode, emptiness or name alone: there are no hunks.
			return f, p.names(f, paths, begin)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, p.names(f, paths, begin)
}

// names takes the paths from the line "diff --git a/x b/x" where nothing else has them. Both are the same but for the
// first part, so that a space in them does not matter.
func (p *parser) names(f *File, paths string, at int) error {
	if f.Old != "" || f.New != "" {
		return nil
	}
	old, new, ok := "", "", false
	if strings.HasPrefix(paths, `"`) {
		if q, err := strconv.QuotedPrefix(paths); err == nil {
			old, new, ok = q, strings.TrimPrefix(paths[len(q):], " "), true
		}
	} else if half := len(paths) / 2; len(paths)%2 == 1 && paths[half] == ' ' {
		old, new, ok = paths[:half], paths[half+1:], true
	}
	if !ok {
		return &SyntaxError{at + 1, "the paths cannot be told apart"}
	}
	var err error
	if f.Old, err = p.path(old); err == nil {
		f.New, err = p.path(new)
	}
	switch f.Action {
	case Create:
		f.Old = ""
	case Delete:
		f.New = ""
	}
	return err
}

// body reads --- and +++ and the hunks.
func (p *parser) body(f *File) error {
	old, err := p.path(header(p.line()[4:]))
	if err != nil {
		return err
	}
	p.at++
	if !strings.HasPrefix(p.line(), "+++ ") {
		return p.fail("the line +++ is missing after ---")
	}
	new, err := p.path(header(p.line()[4:]))
	if err != nil {
		return err
	}
	p.at++
	if f.Action == "" {
		f.Action = Modify
	}
	switch {
	case old == "" && new == "":
		return p.fail("both files are /dev/null")
	case old == "":
		f.Action = Create
	case new == "":
		f.Action = Delete
	}
	if !f.stripped {
		f.Old, f.New = old, new
	}
	for strings.HasPrefix(p.line(), "@@ -") {
		h, err := p.hunk()
		if err != nil {
			return err
		}
		f.Hunks = append(f.Hunks, h)
	}
	if len(f.Hunks) == 0 {
		return p.fail("no hunk follows, which begins like @@ -1,3 +1,4 @@")
	}
	return nil
}

// header is a path of a --- or +++ line, without the time that diff writes behind a tab.
func header(text string) string {
	text, _, _ = strings.Cut(text, "\t")
	return text
}

// path reads a path, which git quotes when it holds unusual characters; "" for /dev/null.
func (p *parser) path(text string) (string, error) {
	if strings.HasPrefix(text, `"`) {
		name, err := strconv.Unquote(text) // a C string, whose octal numbers are bytes
		if err != nil {
			return "", p.fail("%s is no quoted path", text)
		}
		text = name
	}
	switch {
	case text == "/dev/null":
		return "", nil
	case text == "":
		return "", p.fail("a path is empty")
	}
	return text, nil
}

func (p *parser) hunk() (Hunk, error) {
	h := Hunk{Header: p.line(), At: p.at + 1}
	old, new, ok := ranges(h.Header)
	if !ok {
		return h, p.fail("%q is no beginning of a hunk, such as @@ -1,3 +1,4 @@", h.Header)
	}
	h.OldStart, h.NewStart = old.start, new.start
	p.at++
	for old.count > 0 || new.count > 0 {
		if p.at >= len(p.lines) {
			return h, p.fail("the patch ends in the middle of a hunk: %d old and %d new lines are missing (the counts after @@ may be wrong)", old.count, new.count)
		}
		text := p.lines[p.at]
		op := text[0]
		switch {
		case op == '\n' || text == "\r\n": // an empty line of context, whose space got lost on the way
			op, text = ' ', " "+text
		case op == '\\':
			p.noNewline(&h)
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
			text += "\n" // the end of the patch got lost; a file without newline says so
		}
		h.Lines = append(h.Lines, Line{op, text[1:]})
		p.at++
	}
	if strings.HasPrefix(p.line(), `\`) {
		p.noNewline(&h)
	}
	if line := p.line(); line != "" && (line[0] == '+' || line[0] == '-' || line[0] == ' ') && !strings.HasPrefix(line, "--- ") && line != "-- " {
		return h, p.fail("the hunk has more lines than the counts after @@ say")
	}
	return h, nil
}

// noNewline reads "\ No newline at end of file", which speaks of the line before.
func (p *parser) noNewline(h *Hunk) {
	if n := len(h.Lines); n > 0 {
		h.Lines[n-1].Text = strings.TrimSuffix(h.Lines[n-1].Text, "\n")
	}
	p.at++
}

type span struct{ start, count int }

// ranges reads "@@ -1,3 +1,4 @@ anything".
func ranges(header string) (old, new span, ok bool) {
	fields := strings.Fields(header)
	if len(fields) < 4 || fields[0] != "@@" || fields[3] != "@@" {
		return old, new, false
	}
	old, ok1 := readSpan(fields[1], '-')
	new, ok2 := readSpan(fields[2], '+')
	return old, new, ok1 && ok2
}

func readSpan(text string, sign byte) (s span, ok bool) {
	if text == "" || text[0] != sign {
		return s, false
	}
	first, second, two := strings.Cut(text[1:], ",")
	s.count = 1
	var err error
	if s.start, err = strconv.Atoi(first); err != nil || s.start < 0 {
		return s, false
	}
	if two {
		if s.count, err = strconv.Atoi(second); err != nil || s.count < 0 {
			return s, false
		}
	}
	const most = 1 << 30
	return s, s.start < most && s.count < most && (s.start > 0 || s.count == 0)
}
