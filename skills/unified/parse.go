package unified

import "strings"

// Parse reads a patch. It skips text around the diffs, such as the message of a commit. A patch without a diff is an error,
// and so is a binary diff.
func Parse(patch string) ([]File, error) {
	sections, err := Sections(patch)
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(sections))
	for _, s := range sections {
		f, err := s.File()
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, &SyntaxError{1, "there is no diff in it: a line with --- and one with +++ must come before the first @@"}
	}
	return files, nil
}

// File returns the section with its names, whether git or diff wrote it.
func (s Section) File() (f File, err error) {
	f = File{Action: Modify, OldMode: s.OldMode, Mode: s.Mode, Hunks: s.Hunks}
	made, gone := s.Made, s.Gone
	if s.From != "" || s.To != "" {
		f.stripped = true
		if f.Old, err = readPath(s.From, s.Line); err != nil {
			return f, err
		}
		if f.New, err = readPath(s.To, s.Line); err != nil {
			return f, err
		}
	}
	switch {
	case s.Binary:
		return f, &SyntaxError{s.BinaryLine, "a binary diff"}
	case s.MinusLine > 0:
		old, err := readPath(s.Minus, s.MinusLine)
		if err != nil {
			return f, err
		}
		new, err := readPath(s.Plus, s.PlusLine)
		if err != nil {
			return f, err
		}
		switch {
		case old == "" && new == "":
			return f, &SyntaxError{s.PlusLine + 1, "both files are /dev/null"}
		case len(s.Hunks) == 0:
			return f, &SyntaxError{s.EndLine, "no hunk follows, which begins like @@ -1,3 +1,4 @@"}
		case s.Extra:
			return f, s.tooLong()
		}
		made, gone = made || old == "", gone || new == ""
		if !f.stripped {
			f.Old, f.New = old, new
		}
	case !f.stripped: // mode, emptiness or name alone: there are no hunks
		if f.Old, f.New, err = s.bothPaths(); err != nil {
			return f, err
		}
		if made {
			f.Old = ""
		} else if gone {
			f.New = ""
		}
	}
	switch {
	case made:
		f.Action = Create
	case gone:
		f.Action = Delete
	case s.Copy:
		f.Action = Copy
	case f.stripped:
		f.Action = Rename
	}
	return f, nil
}

// bothPaths reads the paths of the line "diff --git a/x b/x". Both are equal except for the first part, so that they may
// contain spaces.
func (s Section) bothPaths() (old, new string, err error) {
	half := len(s.Both) / 2
	switch {
	case strings.HasPrefix(s.Both, `"`):
		_, rest, err := Unquote(s.Both)
		if err != nil {
			return "", "", &SyntaxError{s.Line, err.Error()}
		}
		old, new = s.Both[:len(s.Both)-len(rest)], strings.TrimPrefix(rest, " ")
	case len(s.Both)%2 == 1 && s.Both[half] == ' ':
		old, new = s.Both[:half], s.Both[half+1:]
	default:
		return "", "", &SyntaxError{s.Line, "the paths cannot be told apart"}
	}
	if old, err = readPath(old, s.Line); err == nil {
		new, err = readPath(new, s.Line)
	}
	return old, new, err
}

// readPath reads a path without the time that diff writes after a tab; "" for /dev/null. Git quotes a path with unusual
// characters.
func readPath(text string, line int) (string, error) {
	text, _, _ = strings.Cut(text, "\t")
	if strings.HasPrefix(text, `"`) {
		name, rest, err := Unquote(text)
		if err != nil || rest != "" {
			return "", &SyntaxError{line, text + " is not a quoted path"}
		}
		text = name
	}
	switch text {
	case "/dev/null":
		return "", nil
	case "":
		return "", &SyntaxError{line, "a path is empty"}
	}
	return text, nil
}
