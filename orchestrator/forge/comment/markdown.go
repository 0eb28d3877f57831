package comment

import (
	"regexp"
	"strings"
	"sync"
)

// shownLines reports for each line whether it is shown as text, as far as a command can be in it.
func shownLines(lines []string) []bool {
	shown := make([]bool, len(lines))
	var (
		fence  string    // that opened the block of code
		depth  int       // the column of the fence; more than 0 if it may be in a list
		until  string    // ends the HTML
		quoted bool      // a line of text continues the quotation before it
		before paragraph // so far
	)
	for i, line := range lines {
		trimmed := strings.Trim(line, " \t") // other blanks do not make a blank line
		at := columnOf(line, " \t")
		switch {
		case strings.Contains(line, "\r"), depth > 0 && trimmed != "" && at < depth: // it may be several lines, or the end of the list
			return shown
		case fence != "":
			if closesFence(line, fence) {
				if at > max(3, depth) && depth > 0 {
					return shown
				}
				if at <= max(3, depth) {
					fence, depth = "", 0
				}
			}
			continue
		case until != "":
			if endsHTML(line, until) {
				until = ""
			}
			continue
		case trimmed == "":
			quoted, before = false, paragraph{}
			continue
		}
		if beginsMail(lines[i:]) {
			return shown
		}
		if strings.HasPrefix(strings.TrimLeft(line, listMarks), ">") {
			quoted = true
			continue
		}
		if strings.HasPrefix(trimmed, formula) {
			if strings.Count(line, formula)%2 == 1 {
				until = formula
			}
			continue
		}
		if fence = openedFence(line); fence != "" {
			quoted, before, depth = false, paragraph{}, columnOf(line, listMarks)
			continue
		}
		if strings.HasPrefix(trimmed, "<") || strings.Contains(line, "<!--") {
			until = htmlEnd(line)
			continue
		}
		shown[i] = !quoted && !before.hidesNext()
		before.addLine(line)
	}
	return shown
}

// listMarks are the characters in front of the text of an item of a list.
const listMarks = " \t-*+0123456789.)"

// formula begins and ends a block of mathematics.
const formula = "$$"

var mailPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(-{2,} ?(Original Message|Forwarded message) ?-{2,}|_{20,}|On .{5,300} wrote:|-- ?)$`)
})

// beginsMail reports whether the lines begin the message that an answer by mail quotes below, or a signature.
func beginsMail(lines []string) bool {
	line := strings.TrimRight(lines[0], " \t")
	if mailPattern().MatchString(line) {
		return true
	}
	if !strings.HasPrefix(line, "From: ") || len(lines) < 2 {
		return false
	}
	for _, name := range []string{"Sent: ", "Date: ", "To: "} {
		if strings.HasPrefix(lines[1], name) {
			return true
		}
	}
	return false
}

var (
	autoLinks = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*>`)
	})
	hiddenStart = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`<[A-Za-z/!?]|^ {0,3}\[[^\]\n]*\]:`)
	})
)

// paragraph holds the state after some lines of a paragraph, which decides whether the next line may be hidden. Each line is read once,
// so that a paragraph takes linear time.
type paragraph struct {
	span   int  // the length of the run of backquotes that opened code, 0 outside of code
	hidden bool // HTML or the definition of a link may have begun
	open   int  // brackets that were opened and not closed; negative if more were closed
	link   bool // the address or the title of a link goes on
}

// hidesNext reports whether the next line may belong to code, to HTML, or to a link of which not all is shown.
func (p paragraph) hidesNext() bool { return p.span > 0 || p.hidden || p.open > 0 || p.link }

func (p *paragraph) addLine(line string) {
	p.span = spanAfter(line, p.span)
	line = autoLinks().ReplaceAllString(line, "")
	p.hidden = p.hidden || hiddenStart().MatchString(line)
	p.open += strings.Count(line, "[") - strings.Count(line, "]")
	if at := strings.LastIndexAny(line, "()"); at >= 0 {
		p.link = strings.HasSuffix(line[:at+1], "](")
	}
}

// openedFence returns the fence that a line opens, "" for none. A fence in a list is indented.
func openedFence(line string) string {
	line = strings.TrimLeft(line, listMarks)
	for _, mark := range []string{"`", "~"} {
		n := len(line) - len(strings.TrimLeft(line, mark))
		if n >= 3 && (mark == "~" || !strings.Contains(line[n:], "`")) {
			return line[:n]
		}
	}
	return ""
}

// columnOf returns the column, from 0, of the first character of a line that is not one of marks.
func columnOf(line, marks string) (column int) {
	for _, c := range line[:len(line)-len(strings.TrimLeft(line, marks))] {
		if column++; c == '\t' {
			column = (column + 3) / 4 * 4
		}
	}
	return column
}

// closesFence reports whether a line ends the block of code that a fence opened. It does not check the indentation.
func closesFence(line, fence string) bool {
	line = strings.Trim(line, " \t")
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
	for _, part := range [][2]string{{"<?", "?>"}, {"<![cdata[", "]]>"}, {"<!", ">"}} {
		if strings.HasPrefix(lower, part[0]) {
			if strings.Contains(lower[len(part[0]):], part[1]) {
				return blank
			}
			return part[1]
		}
	}
	for _, name := range []string{"pre", "script", "style", "textarea", "details"} {
		if strings.HasPrefix(lower, "<"+name) {
			if strings.Contains(lower, "</"+name+">") {
				return blank
			}
			return "</" + name + ">"
		}
	}
	return blank
}

// endsHTML reports whether a line ends a block of HTML that continues until a text.
func endsHTML(line, until string) bool {
	if until == blank {
		return strings.Trim(line, " \t") == ""
	}
	return strings.Contains(strings.ToLower(line), until)
}

// spanAfter returns the length of the run of backquotes that is open after a line, 0 for none. open is the one before the line.
func spanAfter(line string, open int) int {
	for {
		if open > 0 {
			end := equalRun(line, open)
			if end < 0 {
				return open
			}
			line, open = line[end:], 0
		}
		at := strings.IndexByte(line, '`')
		switch {
		case at < 0:
			return 0
		case at > 0 && line[at-1] == '\\':
			line = line[at+1:]
		default:
			line = line[at:]
			rest := strings.TrimLeft(line, "`")
			line, open = rest, len(line)-len(rest)
		}
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
