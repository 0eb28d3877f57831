// Package unified reads, applies and makes unified diffs, the format of diff -u and git diff. It holds the only parser of the
// project, [Sections]. [Parse] reads a patch into a list of File, [File.Apply] returns the new content of a file, and [Diff]
// makes the diff of two texts.
//
// It works in memory. Patches may be hostile: a syntax error has the number of its line, and the caller must check the
// paths. Lines keep their ends, so that CRLF and a missing newline at the end of a file are part of the content.
package unified

import (
	"fmt"
	"strings"
)

// File is the change of one file.
type File struct {
	Old, New string // paths as the patch has them; "" for /dev/null
	Action   Action
	OldMode  string // of the old file in octal, as git writes it, such as 100755; "" if the patch does not name it
	Mode     string // of the new one
	Hunks    []Hunk
	Uncopy   bool // the reverse of a copy: deletes the file although the hunks do not remove all of its lines

	stripped bool // the paths come from rename or copy lines, without a/ and b/
}

// Action is the kind of a change.
type Action string

// The actions. A rename or copy may change the content, too.
const (
	Modify Action = "modify"
	Create Action = "create"
	Delete Action = "delete"
	Rename Action = "rename"
	Copy   Action = "copy"
)

// Hunk replaces some lines by others.
type Hunk struct {
	Header   string // the line that begins with @@
	OldStart int    // number of the first line, from 1; with no old lines, of the line before
	NewStart int
	Lines    []Line
	At       int // number of its header in the patch
}

// Line is one line of a hunk.
type Line struct {
	Op   byte   // ' ', '-' or '+'
	Text string // with its end, unless it is the last of a file without one
}

// Count returns the number of lines before and after.
func (h *Hunk) Count() (old, new int) {
	for _, l := range h.Lines {
		if l.Op != '+' {
			old++
		}
		if l.Op != '-' {
			new++
		}
	}
	return old, new
}

// Added and Removed count the lines that a file gets and loses.
func (f *File) Added() int { return f.countLines('+') }

func (f *File) Removed() int { return f.countLines('-') }

func (f *File) countLines(op byte) (n int) {
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			if l.Op == op {
				n++
			}
		}
	}
	return n
}

// Reverse returns the change that undoes f.
func (f File) Reverse() File {
	f.Old, f.New, f.OldMode, f.Mode = f.New, f.Old, f.Mode, f.OldMode
	switch f.Action {
	case Create:
		f.Action = Delete
	case Delete:
		f.Action = Create
	case Copy: // removes the copy, even if its content has changed
		f.Action, f.New, f.Uncopy = Delete, "", true
	}
	hunks := make([]Hunk, len(f.Hunks))
	for i, h := range f.Hunks {
		hunks[i] = Hunk{Header: h.Header, OldStart: h.NewStart, NewStart: h.OldStart, At: h.At, Lines: make([]Line, 0, len(h.Lines))}
		var added []Line // after the lines that they replace, as in a diff
		for _, l := range h.Lines {
			switch l.Op {
			case '+':
				hunks[i].Lines = append(hunks[i].Lines, Line{'-', l.Text})
				continue
			case '-':
				added = append(added, Line{'+', l.Text})
				continue
			}
			hunks[i].Lines = append(append(hunks[i].Lines, added...), l)
			added = nil
		}
		hunks[i].Lines = append(hunks[i].Lines, added...)
	}
	f.Hunks = hunks
	return f
}

// SyntaxError is a violation of the format.
type SyntaxError struct {
	Line   int // from 1
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// splitLines splits a text after each newline.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	return lines
}

// Prefixed reports whether the paths begin with a/ and b/, as git writes them.
func (f *File) Prefixed() bool {
	return f.stripped || (f.Old == "" || strings.HasPrefix(f.Old, "a/")) && (f.New == "" || strings.HasPrefix(f.New, "b/"))
}

// Strip removes n leading folders from the paths; git writes the paths of renames and copies without the first. It returns
// false if no name would be left.
func (f *File) Strip(n int) bool {
	if f.stripped {
		n--
	}
	for _, p := range []*string{&f.Old, &f.New} {
		for range n {
			if *p == "" {
				break
			}
			_, rest, ok := strings.Cut(*p, "/")
			if *p = strings.TrimLeft(rest, "/"); !ok || *p == "" {
				return false
			}
		}
	}
	return true
}
