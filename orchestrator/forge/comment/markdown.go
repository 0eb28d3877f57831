package comment

import "strings"

// shownLines reports for each line whether it is shown as text, as far as a command can be in it.
func shownLines(lines []string) []bool {
	shown := make([]bool, len(lines))
	var (
		fence     string // that opened the block of code
		until     string // ends the HTML
		quoted    bool   // a line of text continues the quotation before it
		paragraph string // so far
	)
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if closesFence(line, fence) {
				fence = ""
			}
			continue
		case until != "":
			if until == blank && trimmed == "" || until != blank && strings.Contains(strings.ToLower(line), until) {
				until = ""
			}
			continue
		case trimmed == "":
			quoted, paragraph = false, ""
			continue
		}
		if strings.HasPrefix(trimmed, ">") {
			quoted = true
			continue
		}
		if fence = openedFence(line); fence != "" {
			quoted, paragraph = false, ""
			continue
		}
		if strings.HasPrefix(trimmed, "<") || strings.Contains(line, "<!--") {
			until = htmlEnd(line)
			continue
		}
		shown[i] = !quoted && !opensSpan(paragraph)
		paragraph += line + "\n"
	}
	return shown
}

// openedFence returns the fence that a line opens, "" for none. A fence in a list is indented.
func openedFence(line string) string {
	line = strings.TrimLeft(line, " \t-*+0123456789.)")
	for _, mark := range []string{"`", "~"} {
		n := len(line) - len(strings.TrimLeft(line, mark))
		if n >= 3 && (mark == "~" || !strings.Contains(line[n:], "`")) {
			return line[:n]
		}
	}
	return ""
}

// closesFence reports whether a line ends the block of code that a fence opened.
func closesFence(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// blank is the end of HTML that a blank line ends.
const blank = "\n"

// htmlEnd returns the text that ends the HTML in a line, "" if the line itself does.
func htmlEnd(line string) string {
	lower := strings.ToLower(line)
	if at := strings.LastIndex(lower, "<!--"); at >= 0 {
		if strings.Contains(lower[at:], "-->") {
			return blank
		}
		return "-->"
	}
	lower = strings.TrimSpace(lower)
	for _, name := range []string{"pre", "script", "style", "textarea"} {
		if strings.HasPrefix(lower, "<"+name) {
			if strings.Contains(lower, "</"+name+">") {
				return blank
			}
			return "</" + name + ">"
		}
	}
	return blank
}

// opensSpan reports whether a paragraph may end within code: in a run of backquotes that no equal run follows.
func opensSpan(paragraph string) bool {
	for {
		at := strings.IndexByte(paragraph, '`')
		if at < 0 {
			return false
		}
		if at > 0 && paragraph[at-1] == '\\' {
			paragraph = paragraph[at+1:]
			continue
		}
		paragraph = paragraph[at:]
		n := len(paragraph) - len(strings.TrimLeft(paragraph, "`"))
		end := equalRun(paragraph[n:], n)
		if end < 0 {
			return true
		}
		paragraph = paragraph[n+end:]
	}
}

// equalRun returns the end of the first run of exactly n backquotes, -1 if there is none.
func equalRun(s string, n int) int {
	for at := 0; at < len(s); at++ {
		if s[at] != '`' {
			continue
		}
		start := at
		for at < len(s) && s[at] == '`' {
			at++
		}
		if at-start == n {
			return at
		}
	}
	return -1
}
