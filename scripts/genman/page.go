package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// page is the help of one command, taken apart.
type page struct {
	words    []string // the command, such as lattice sprite exec
	summary  string   // one line
	about    []string // the lines of the description
	exit     []string // the exit codes
	sections []section
}

// section is a part of the help below a title, such as "Flags:".
type section struct {
	title string
	lines []string
}

// row is a line of a section in two columns: a flag or a command, and what it is for.
type row struct{ name, text string }

var (
	titleLine = regexp.MustCompile(`^([A-Z][a-z]*(?: [A-Za-z]+)*):(?: (.+))?$`)
	tableRow  = regexp.MustCompile(`^ {2,6}(\S+(?: \S+)*?)(?: {2,}| (?:\())(.*)$`)
)

// knownTitles are the titles of sections in the help of both programs, with the order and names that manual pages use. All
// other titles belong to lists of commands, which come first.
var knownTitles = []struct{ help, manual string }{
	{"Aliases", "ALIASES"}, {"Inputs", "INPUTS"}, {"Outputs", "OUTPUTS"}, {"Permissions", "PERMISSIONS"}, {"Side effect", "SIDE EFFECT"},
	{"Flags", "OPTIONS"}, {"Global Flags", "GLOBAL OPTIONS"},
	{"Example", "EXAMPLES"}, {"Examples", "EXAMPLES"}, {"More examples", "MORE EXAMPLES"},
}

// parseHelp takes apart the help of a command.
func parseHelp(words []string, summary, help string) page {
	p := page{words: words, summary: summary}
	lines := strings.Split(strings.TrimRight(help, "\n"), "\n")
	into := &p.about
	afterBlank := true
	for i, line := range lines {
		m := titleLine.FindStringSubmatch(line)
		followed := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ")
		switch {
		case strings.HasPrefix(line, "Use \""): // how to ask for more help
		case afterBlank && m != nil && m[1] == "Exit codes":
			p.exit = append(p.exit, m[2])
			into = &p.exit
		case afterBlank && m != nil && (m[2] != "" && isShortSection(m[1]) || m[2] == "" && followed):
			s := section{title: m[1]}
			if m[2] != "" {
				s.lines = []string{"  " + m[2]}
			}
			p.sections = append(p.sections, s)
			into = &p.sections[len(p.sections)-1].lines
		case line == "" && into == &p.exit, afterBlank && into != &p.about && line != "" && !strings.HasPrefix(line, " "):
			into = &p.about // text goes on behind the section
			*into = append(*into, "", line)
		default:
			*into = append(*into, line)
		}
		afterBlank = line == ""
	}
	if p.summary == "" && len(p.about) > 0 {
		p.summary = strings.TrimPrefix(p.about[0], p.name()+" ") // the program itself
	}
	p.summary = strings.TrimRight(p.summary, ".,")
	return p
}

// isShortSection reports whether a title may have its text on its own line.
func isShortSection(title string) bool {
	return slices.Contains([]string{"Aliases", "Usage", "Example", "Permissions", "Side effect"}, title)
}

// commands returns the commands that the help lists.
func (p page) commands() (list []row) {
	for _, s := range p.sections {
		if s.isCommands() {
			list = append(list, s.parseRows()...)
		}
	}
	return list
}

func (s section) isCommands() bool {
	for _, k := range knownTitles {
		if s.title == k.help {
			return false
		}
	}
	return s.title != "Usage"
}

// parseRows returns the lines of a table.
func (s section) parseRows() (list []row) {
	for _, line := range s.lines {
		if m := tableRow.FindStringSubmatch(line); m != nil {
			text := m[2]
			if strings.HasPrefix(line[len(line)-len(text)-1:], "(") {
				text = "(" + text
			}
			list = append(list, row{m[1], strings.TrimSpace(text)})
		} else if name, text, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			list = append(list, row{name, text}) // a name that is wider than its column
		}
	}
	return list
}

func (p page) name() string     { return strings.Join(p.words, "-") }
func (p page) fileName() string { return p.name() + ".1" }

// renderRoff returns the page in the macros of man(7).
func (p page) renderRoff() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"User Commands\"\n.ad l\n.nh\n", escapeRoff(strings.ToUpper(p.name())), escapeRoff(p.words[0]))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escapeRoff(p.name()), escapeRoff(p.summary))
	for _, s := range p.sections {
		if s.title == "Usage" {
			fmt.Fprint(&b, ".SH SYNOPSIS\n")
			writeVerbatim(&b, s.lines)
		}
	}
	fmt.Fprint(&b, ".SH DESCRIPTION\n")
	writeText(&b, p.about)
	for _, s := range p.sections {
		if s.isCommands() {
			fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(s.title))
			writeTable(&b, s)
		}
	}
	for _, k := range knownTitles {
		for _, s := range p.sections {
			if s.title != k.help {
				continue
			}
			fmt.Fprintf(&b, ".SH %s\n", k.manual)
			if strings.HasSuffix(k.manual, "EXAMPLES") || isShortSection(k.help) {
				writeVerbatim(&b, s.lines)
			} else {
				writeTable(&b, s)
			}
		}
	}
	if len(p.exit) > 0 {
		fmt.Fprint(&b, ".SH EXIT STATUS\n")
		writeText(&b, p.exit)
	}
	p.writeSeeAlso(&b)
	return b.Bytes()
}

// writeSeeAlso names the pages of the parent and of the commands below.
func (p page) writeSeeAlso(b *bytes.Buffer) {
	var others []string
	if len(p.words) > 1 {
		others = append(others, strings.Join(p.words[:len(p.words)-1], "-"))
	}
	for _, c := range p.commands() {
		if c.name != "help" {
			others = append(others, p.name()+"-"+c.name)
		}
	}
	if len(others) == 0 {
		return
	}
	fmt.Fprint(b, ".SH SEE ALSO\n")
	for i, name := range others {
		comma := ","
		if i == len(others)-1 {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", escapeRoff(name), comma)
	}
}

// writeText writes paragraphs. Indented lines stand as they are.
func writeText(b *bytes.Buffer, lines []string) {
	begun := false
	for i := 0; i < len(lines); {
		end := i
		switch {
		case lines[i] == "":
			end++
		case strings.HasPrefix(lines[i], " "):
			for end < len(lines) && strings.HasPrefix(lines[end], " ") {
				end++
			}
			writeVerbatim(b, lines[i:end])
		default:
			for end < len(lines) && lines[end] != "" && !strings.HasPrefix(lines[end], " ") {
				end++
			}
			if begun {
				fmt.Fprint(b, ".PP\n")
			}
			for _, line := range lines[i:end] {
				fmt.Fprintln(b, escapeRoff(line))
			}
		}
		begun = begun || lines[i] != ""
		i = end
	}
}

// writeVerbatim writes lines that keep their ends.
func writeVerbatim(b *bytes.Buffer, lines []string) {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	fmt.Fprint(b, ".PP\n.nf\n.RS 2\n")
	for _, line := range lines {
		fmt.Fprintln(b, escapeRoff(strings.TrimPrefix(line, "  ")))
	}
	fmt.Fprint(b, ".RE\n.fi\n")
}

func writeTable(b *bytes.Buffer, s section) {
	for _, r := range s.parseRows() {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escapeRoff(r.name), escapeRoff(r.text))
	}
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

// escapeRoff returns text that roff prints as it is.
func escapeRoff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
