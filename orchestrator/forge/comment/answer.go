package comment

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Fill reads the text of an answer to a question with the expected inputs, by name: each name with its type. An answer to one
// input is the text itself. Several inputs are lines NAME: VALUE, or headings with the value below, as a form writes them. The
// values are text; their types are checked where the answer is given.
func Fill(answer string, expected map[string]string, optional []string) (map[string]string, error) {
	required := slices.DeleteFunc(slices.Sorted(maps.Keys(expected)), func(name string) bool { return slices.Contains(optional, name) })
	named, whole := readForm(answer, expected)
	switch {
	case whole:
		return named, nil
	case len(required) == 1:
		return map[string]string{required[0]: answer}, nil
	case len(required) == 0 && len(expected) == 1:
		for name := range expected {
			return map[string]string{name: answer}, nil
		}
	}
	return nil, fmt.Errorf("the answer must have a line NAME: VALUE for each of %s", strings.Join(slices.Sorted(maps.Keys(expected)), ", "))
}

// readForm returns the values of a form. whole is false if the text holds anything that belongs to no input.
func readForm(answer string, expected map[string]string) (values map[string]string, whole bool) {
	values, heading, below := map[string]string{}, "", []string(nil)
	end := func() bool {
		if heading == "" {
			return true
		}
		_, twice := values[heading]
		values[heading] = strings.TrimSpace(strings.Join(below, "\n"))
		return !twice
	}
	for line := range strings.SplitSeq(answer, "\n") {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			if _, known := expected[strings.TrimSpace(title)]; known {
				if !end() {
					return nil, false
				}
				heading, below = strings.TrimSpace(title), nil
				continue
			}
		}
		if heading != "" {
			below = append(below, line)
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		at := strings.IndexAny(line, ":=")
		if at < 0 {
			return nil, false
		}
		name := strings.TrimSpace(line[:at])
		_, known := expected[name]
		_, twice := values[name]
		if !known || twice {
			return nil, false
		}
		values[name] = strings.TrimSpace(line[at+1:])
	}
	return values, end() && len(values) > 0
}

// Box returns a line with a checkbox that stands for a command.
func Box(label, command string) string {
	return fmt.Sprintf("- [ ] %s <!-- %s %s -->", label, prefix, command)
}

var boxPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^- \[[ xX]\] .* <!-- ` + prefix + ` ([^<>\n]*) -->$`)
})

// Ticked returns the command of the checkbox that an edit ticked. ok is false if the edit changed anything else: an edit may be
// by a person who has no role but may edit the text, and who changes the command that a box stands for.
func Ticked(before, after string) (c Command, ok bool) {
	was, is := strings.Split(strings.ReplaceAll(before, "\r\n", "\n"), "\n"), strings.Split(strings.ReplaceAll(after, "\r\n", "\n"), "\n")
	if len(was) != len(is) {
		return c, false
	}
	at := -1
	for i := range was {
		if was[i] == is[i] {
			continue
		}
		if at >= 0 {
			return c, false
		}
		at = i
	}
	if at < 0 {
		return c, false
	}
	m := boxPattern().FindStringSubmatch(was[at])
	rest, ticked := strings.CutPrefix(is[at], "- [x]")
	if !ticked {
		rest, ticked = strings.CutPrefix(is[at], "- [X]")
	}
	if m == nil || !ticked || was[at] != "- [ ]"+rest {
		return c, false
	}
	c = parseLine(" "+m[1], at+1)
	c.check()
	return c, c.Problem == ""
}
