// Package patch checks unified patches before git applies them: which files they change, how, and where their hunks are.
// Start with [Parse]; [Judge] refuses paths that no patch may change.
//
// The package does no I/O and applies nothing. It reads names as git apply does. It refuses a patch in which two readers
// could find different names, because a check of one name says nothing about the other.
package patch

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/unified"
)

// File is the change of one file.
type File struct {
	Old, New string // paths, stripped; "" where there is no file before or after
	Status   string // A, M, D, R, C
	Mode     string // of the new file, six octal digits, "" if the patch does not change it
	Binary   bool
	Hunks    []Hunk
	// Start and End are the offsets of the file's section in the patch, in bytes.
	Start, End int
}

// Files are the files of a patch, in its order.
type Files []File

// Hunk is the place of a hunk in the old and the new file; lines count from 1.
type Hunk struct{ OldStart, OldLines, NewStart, NewLines int }

// Path is the name of the file afterwards, before if it is deleted.
func (f File) Path() string {
	if f.New == "" {
		return f.Old
	}
	return f.New
}

// Error is a patch that cannot be read, with the number of the line.
type Error = unified.SyntaxError

const devNull = "/dev/null"

// Parse reads a patch whose names have strip leading folders. A patch without a file is an error.
func Parse(text []byte, strip int) (Files, error) {
	sections, err := unified.Sections(string(text))
	if err != nil {
		return nil, err
	}
	var files Files
	for _, s := range sections {
		if !s.Git && len(s.Hunks) == 0 {
			continue // git apply takes the lines --- and +++ without a hunk for text
		}
		f := File{Status: "M", Mode: strings.TrimSpace(s.Mode), Binary: s.Binary, Start: s.Start, End: s.End}
		if f.Mode != "" && (len(f.Mode) != 6 || strings.Trim(f.Mode, "01234567") != "") {
			return nil, &Error{Line: s.Line, Reason: fmt.Sprintf("%.40q is not a mode of six octal digits", f.Mode)} // git also accepts others
		}
		if err := (names{s, strip}).setNames(&f); err != nil {
			return nil, err
		}
		for _, h := range s.Hunks {
			old, new := h.Count()
			f.Hunks = append(f.Hunks, Hunk{h.OldStart, old, h.NewStart, new})
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, &Error{Line: 1, Reason: "no file is changed: a patch has lines such as \"--- a/name\", \"+++ b/name\" and \"@@ -1,3 +1,4 @@\""}
	}
	return files, nil
}

// Select returns the part of the patch that changes some of its files.
func Select(text []byte, files Files) []byte {
	var b bytes.Buffer
	for _, f := range files {
		b.Write(text[f.Start:f.End])
	}
	return b.Bytes()
}

// names reads the names of a section.
type names struct {
	unified.Section
	strip int
}

// fail returns an error about the first line of the section.
func (n names) fail(format string, args ...any) error {
	return &Error{Line: n.Line, Reason: fmt.Sprintf(format, args...)}
}

// setNames sets names and status of a file. A section may name a file up to three times; the names must agree.
func (n names) setNames(f *File) error {
	minus, err := n.readPath(n.Minus, n.MinusLine, n.strip)
	if err != nil {
		return err
	}
	plus, err := n.readPath(n.Plus, n.PlusLine, n.strip)
	if err != nil {
		return err
	}
	made, gone := n.Made || minus == devNull, n.Gone || plus == devNull
	if minus == devNull {
		minus = ""
	}
	if plus == devNull {
		plus = ""
	}
	if n.From != "" || n.To != "" {
		if f.Status = "R"; n.Copy {
			f.Status = "C"
		}
		if f.Old, f.New, err = n.readRename(minus, plus); err != nil {
			return err
		}
	} else {
		name, err := n.readName(minus, plus, made && gone)
		if err != nil {
			return err
		}
		f.Old, f.New = name, name
	}
	switch {
	case made && gone:
		return n.fail("a file is made and deleted at once")
	case made:
		f.Status, f.Old = "A", ""
	case gone:
		f.Status, f.New = "D", ""
	}
	return nil
}

// readRename returns the names of a rename or copy.
func (n names) readRename(minus, plus string) (old, new string, err error) {
	if n.From == "" || n.To == "" {
		return "", "", n.fail("a rename or copy names one file only")
	}
	if old, err = n.readPath(n.From, n.Line, max(n.strip-1, 0)); err != nil {
		return "", "", err
	}
	if new, err = n.readPath(n.To, n.Line, max(n.strip-1, 0)); err != nil {
		return "", "", err
	}
	if minus != "" && minus != old || plus != "" && plus != new {
		return "", "", n.fail("the names of a renamed file do not agree")
	}
	return old, new, nil
}

// readName returns the one name of a file that is not renamed.
func (n names) readName(minus, plus string, nameless bool) (string, error) {
	name := ""
	if n.Git {
		var err error
		if name, err = n.bothNames(); err != nil {
			return "", err
		}
	}
	for _, other := range []string{minus, plus} {
		switch {
		case other == "":
		case name == "":
			name = other
		case name != other:
			return "", n.fail("the file is called %q and %q, and is not renamed; git diff writes renames otherwise", name, other)
		}
	}
	if name == "" && !nameless {
		return "", n.fail("the file has no name once %d leading folders are stripped", n.strip)
	}
	return name, nil
}

// bothNames returns the name on a "diff --git" line if both halves are equal once stripped. Otherwise it returns "", and
// the lines that follow must name the file.
func (n names) bothNames() (string, error) {
	both := n.Both
	if strings.HasPrefix(both, `"`) || strings.HasSuffix(both, `"`) {
		first, rest, err := unified.Unquote(both)
		if err != nil {
			return "", n.fail("%v", err)
		}
		second, _, err := unified.Unquote(strings.TrimPrefix(rest, " "))
		if err != nil {
			return "", n.fail("%v", err)
		}
		if a, b := stripFolders(first, n.strip), stripFolders(second, n.strip); a == b {
			return a, nil
		}
		return "", nil
	}
	// The halves have the same length except for their first folder: try every space.
	name := ""
	for i := range both {
		if both[i] != ' ' {
			continue
		}
		a, b := stripFolders(both[:i], n.strip), stripFolders(both[i+1:], n.strip)
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

// readPath reads a name of a line ---, +++ or rename: quoted, or up to a tab. It returns "" for a line that is missing.
func (n names) readPath(text string, line, strip int) (string, error) {
	if line == 0 {
		return "", nil
	}
	if strings.HasPrefix(text, `"`) {
		name, _, err := unified.Unquote(text)
		if err != nil {
			return "", &Error{Line: line, Reason: err.Error()}
		}
		text = name
	} else {
		text, _, _ = strings.Cut(text, "\t")
	}
	if text == devNull {
		return devNull, nil
	}
	name := stripFolders(text, strip)
	if name == "" {
		return "", &Error{Line: line, Reason: fmt.Sprintf("%q has no name once %d leading folders are stripped", text, strip)}
	}
	return name, nil
}

// stripFolders removes leading folders; it returns "" if the name has fewer.
func stripFolders(name string, strip int) string {
	for range strip {
		i := strings.IndexByte(name, '/')
		if i < 0 {
			return ""
		}
		name = strings.TrimLeft(name[i:], "/")
	}
	return name
}
