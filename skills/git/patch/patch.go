// Package patch reads unified patches, as git diff and diff -u write them, far enough to judge them before git applies
// them: which files they touch, how, and where their hunks lie. Start with Parse; Judge says which paths no patch may
// touch.
//
// The package does no I/O and applies nothing. It reads as git apply does: text before and between the files is skipped,
// the lines of a hunk are counted, names may be quoted as in C. Where two readers could take a name for two different
// ones the patch is refused, because the judgement of the one says nothing about the work of the other.
package patch

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// File is what a patch does to one file.
type File struct {
	Old, New string // paths, stripped; "" where there is no file before or after
	Status   string // A, M, D, R, C
	Mode     string // of the new file, six octal digits, "" when it stays or is not said
	Binary   bool
	Hunks    []Hunk
	// Start and End are where the file's part lies in the patch, in bytes.
	Start, End int
}

// Files are the files of a patch, in its order.
type Files []File

// Hunk is where a hunk applies: line numbers count from 1, as the old and the new file have them.
type Hunk struct{ OldStart, OldLines, NewStart, NewLines int }

// Path is the name of the file afterwards, before if it is deleted.
func (f File) Path() string {
	if f.New == "" {
		return f.Old
	}
	return f.New
}

// Error is a patch that cannot be read; Line counts from 1.
type Error struct {
	Line    int
	Problem string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d of the patch: %s", e.Line, e.Problem) }

const devNull = "/dev/null"

// Parse reads a patch whose names carry strip leading folders. A patch without a file is an error.
func Parse(text []byte, strip int) (Files, error) {
	p := &parser{text: text, strip: strip}
	for p.more() {
		line := p.peek()
		var f *File
		var err error
		switch {
		case strings.HasPrefix(line, "diff --git "):
			f, err = p.gitFile()
		case strings.HasPrefix(line, "--- ") && strings.HasPrefix(p.peekAfter(1), "+++ ") && strings.HasPrefix(p.peekAfter(2), "@@ -"):
			f, err = p.plainFile()
		case strings.HasPrefix(line, "@@ -"):
			err = p.fail("a hunk belongs to no file")
		default:
			p.next()
			continue
		}
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, *f)
	}
	if len(p.files) == 0 {
		return nil, &Error{Line: 1, Problem: "no file is changed: a patch has lines such as \"--- a/name\", \"+++ b/name\" and \"@@ -1,3 +1,4 @@\""}
	}
	return p.files, nil
}

// Select is the patch reduced to some of its files.
func Select(text []byte, files Files) []byte {
	var b bytes.Buffer
	for _, f := range files {
		b.Write(text[f.Start:f.End])
	}
	return b.Bytes()
}

type parser struct {
	text  []byte
	strip int
	at    int // offset of the next line
	line  int // lines read
	files Files
}

func (p *parser) more() bool { return p.at < len(p.text) }

func (p *parser) fail(format string, args ...any) error {
	return &Error{Line: p.line + 1, Problem: fmt.Sprintf(format, args...)}
}

// peekAfter is the line n lines further on, without its end.
func (p *parser) peekAfter(n int) string {
	rest := p.text[p.at:]
	for range n {
		_, rest, _ = bytes.Cut(rest, []byte("\n"))
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(line)
}

func (p *parser) peek() string { return p.peekAfter(0) }

func (p *parser) next() string {
	line := p.peek()
	p.at = min(p.at+len(line)+1, len(p.text))
	p.line++
	return line
}

// header gathers what the lines between "diff --git" and the first hunk say.
type header struct {
	File
	from, to    string // of rename or copy
	minus, plus string // of --- and +++, "/dev/null" included
	made, gone  bool
}

// gitFile reads a file that begins with "diff --git".
func (p *parser) gitFile() (*File, error) {
	h := header{File: File{Start: p.at, Status: "M"}}
	first := p.line
	both := strings.TrimPrefix(p.next(), "diff --git ")
	for p.more() {
		line := p.peek()
		done, err := p.extended(&h, line)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
		p.next()
	}
	if err := p.name(&h, both); err != nil {
		if e, ok := err.(*Error); ok {
			e.Line = first + 1
		}
		return nil, err
	}
	if err := p.hunks(&h.File); err != nil {
		return nil, err
	}
	h.End = p.at
	return &h.File, nil
}

// extended takes one line of the header; done is set at the first line that is none.
func (p *parser) extended(h *header, line string) (done bool, err error) {
	set := func(to *string, quoted string, strip int) {
		*to, err = p.path(quoted, strip)
	}
	key, value := "", ""
	for _, k := range []string{
		"old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ", "rename old ", "rename new ", "rename from ",
		"rename to ", "similarity index ", "dissimilarity index ", "index ", "--- ", "+++ ",
	} {
		if v, ok := strings.CutPrefix(line, k); ok {
			key, value = k, v
			break
		}
	}
	switch key {
	case "":
		return true, nil
	case "new mode ", "new file mode ":
		h.Mode, h.made = strings.TrimSpace(value), h.made || key == "new file mode "
	case "deleted file mode ":
		h.gone = true
	case "copy from ", "rename from ", "rename old ":
		set(&h.from, value, max(p.strip-1, 0))
	case "copy to ", "rename to ", "rename new ":
		if h.Status = "R"; key == "copy to " {
			h.Status = "C"
		}
		set(&h.to, value, max(p.strip-1, 0))
	case "--- ":
		set(&h.minus, value, p.strip)
	case "+++ ":
		set(&h.plus, value, p.strip)
	}
	return false, err
}

// name settles the names of a file from its header. They may be told up to three times, and must agree.
func (p *parser) name(h *header, both string) error {
	if h.minus == devNull {
		h.made, h.minus = true, ""
	}
	if h.plus == devNull {
		h.gone, h.plus = true, ""
	}
	h.Old, h.New = h.minus, h.plus
	if h.Status == "R" || h.Status == "C" {
		if h.from == "" || h.to == "" {
			return p.fail("a rename or copy names one file only")
		}
		if h.minus != "" && h.minus != h.from || h.plus != "" && h.plus != h.to {
			return p.fail("the names of a renamed file do not agree")
		}
		h.Old, h.New = h.from, h.to
	} else {
		name, err := p.bothNames(both)
		if err != nil {
			return err
		}
		for _, n := range []string{h.minus, h.plus} {
			if n != "" && name != "" && n != name {
				return p.fail("the file is called %q here and %q there", name, n)
			}
			if name == "" {
				name = n
			}
		}
		if name == "" {
			return p.fail("the file has no name once %d leading folders are stripped", p.strip)
		}
		if h.minus != "" && h.plus != "" && h.minus != h.plus {
			return p.fail("the file is called %q before and %q after, and is not renamed", h.minus, h.plus)
		}
		h.Old, h.New = name, name
	}
	switch {
	case h.made && h.gone:
		return p.fail("a file is made and deleted at once")
	case h.made:
		h.Status, h.Old = "A", ""
	case h.gone:
		h.Status, h.New = "D", ""
	}
	return nil
}

// bothNames is the name on a "diff --git" line if both halves are the same once stripped; "" when they are not, and the
// lines that follow must name the file.
func (p *parser) bothNames(both string) (string, error) {
	if strings.HasPrefix(both, `"`) || strings.HasSuffix(both, `"`) {
		first, rest, err := p.quoted(both)
		if err != nil {
			return "", err
		}
		second, _, err := p.quoted(strings.TrimPrefix(rest, " "))
		if err != nil {
			return "", err
		}
		if a, b := stripped(first, p.strip), stripped(second, p.strip); a == b {
			return a, nil
		}
		return "", nil
	}
	// Both halves are equally long but for their first folder: try every blank.
	name := ""
	for i := range both {
		if both[i] != ' ' {
			continue
		}
		a, b := stripped(both[:i], p.strip), stripped(both[i+1:], p.strip)
		if a == "" || a != b {
			continue
		}
		if name != "" && name != a {
			return "", nil
		}
		name = a
	}
	return name, nil
}

// plainFile reads a file without a "diff --git" line.
func (p *parser) plainFile() (*File, error) {
	f := &File{Start: p.at, Status: "M"}
	var err error
	if f.Old, err = p.path(strings.TrimPrefix(p.next(), "--- "), p.strip); err != nil {
		return nil, err
	}
	if f.New, err = p.path(strings.TrimPrefix(p.next(), "+++ "), p.strip); err != nil {
		return nil, err
	}
	switch {
	case f.Old == devNull && f.New == devNull:
		return nil, p.fail("the file has no name")
	case f.Old == devNull:
		f.Old, f.Status = "", "A"
	case f.New == devNull:
		f.New, f.Status = "", "D"
	case f.Old != f.New:
		return nil, p.fail("the file is called %q before and %q after; git diff writes renames otherwise", f.Old, f.New)
	}
	err = p.hunks(f)
	f.End = p.at
	return f, err
}

// path reads a name as "---", "+++" and "rename" lines have it: quoted, or up to a tab.
func (p *parser) path(text string, strip int) (string, error) {
	if strings.HasPrefix(text, `"`) {
		name, _, err := p.quoted(text)
		if err != nil {
			return "", err
		}
		text = name
	} else {
		text, _, _ = strings.Cut(strings.TrimSuffix(text, "\r"), "\t")
	}
	if text == devNull {
		return devNull, nil
	}
	name := stripped(text, strip)
	if name == "" {
		return "", p.fail("%q has no name once %d leading folders are stripped", text, strip)
	}
	return name, nil
}

// quoted reads a name in quotes, or a bare one up to the next blank.
func (p *parser) quoted(text string) (name, rest string, err error) {
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
				return "", "", p.fail("a quoted name does not end")
			}
			if j := strings.IndexByte(`abfnrtv"\`, text[i]); j >= 0 {
				b = append(b, "\a\b\f\n\r\t\v\"\\"[j])
				continue
			}
			if i+3 > len(text) {
				return "", "", p.fail("a quoted name does not end")
			}
			octal, err := strconv.ParseUint(text[i:i+3], 8, 8)
			if err != nil {
				return "", "", p.fail(`a quoted name holds \%s`, text[i:i+3])
			}
			b = append(b, byte(octal))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return "", "", p.fail("a quoted name does not end")
}

// stripped removes leading folders; "" when there are not so many.
func stripped(name string, strip int) string {
	for range strip {
		i := strings.IndexByte(name, '/')
		if i < 0 {
			return ""
		}
		name = strings.TrimLeft(name[i:], "/")
	}
	return name
}
