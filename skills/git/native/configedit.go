package native

import "strings"

// The functions below edit the text of a configuration and leave everything else in it as it is.

// header is the line that begins a section.
func header(section, subsection string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(subsection)
	return "[" + section + ` "` + quoted + `"]`
}

// isHeader reports whether a line begins the section.
func isHeader(line, section, subsection string) bool {
	line = strings.TrimSpace(line)
	name, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), " ")
	want := strings.TrimPrefix(header("", subsection), "[ ")
	return strings.HasPrefix(line, "[") && ok && strings.EqualFold(strings.TrimSpace(name), section) &&
		strings.HasPrefix(strings.TrimLeft(rest, " \t"), want)
}

// sections calls f for each logical line with whether it belongs to the section, and keeps what f returns.
func sections(text, section, subsection string, f func(line string, first bool) string) string {
	var b strings.Builder
	inside, continued := false, false
	for line := range strings.Lines(text) {
		first := false
		if !continued && strings.HasPrefix(strings.TrimSpace(line), "[") {
			inside = isHeader(line, section, subsection)
			first = inside
		}
		continued = strings.HasSuffix(strings.TrimRight(line, "\r\n"), `\`)
		if inside {
			line = f(line, first)
		}
		b.WriteString(line)
	}
	return b.String()
}

// dropSection removes a section.
func dropSection(text, section, subsection string) string {
	return sections(text, section, subsection, func(string, bool) string { return "" })
}

// renameSection gives a section another name.
func renameSection(text, section, from, to string) string {
	if from == to {
		return text
	}
	return sections(dropSection(text, section, to), section, from, func(line string, first bool) string {
		if first {
			return strings.Replace(line, strings.TrimPrefix(header("", from), "[ "), strings.TrimPrefix(header("", to), "[ "), 1)
		}
		return line
	})
}

// setBranch makes a branch follow a remote's.
func setBranch(text, name, remote, merge string) string {
	rest := sections(text, "branch", name, func(line string, first bool) string {
		key, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if !first && (key == "remote" || key == "merge") {
			return ""
		}
		return line
	})
	if rest != "" && !strings.HasSuffix(rest, "\n") {
		rest += "\n"
	}
	added := "\tremote = " + remote + "\n\tmerge = " + merge + "\n"
	done := false
	rest = sections(rest, "branch", name, func(line string, first bool) string {
		if first && !done {
			done = true
			return line + added
		}
		return line
	})
	if done {
		return rest
	}
	return rest + header("branch", name) + "\n" + added
}
