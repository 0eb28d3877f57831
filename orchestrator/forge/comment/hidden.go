package comment

import (
	"regexp"
	"strings"
	"sync"
)

// hiddenParts are the parts of Markdown that a code host does not show, each with its replacement: comments, definitions of
// links, attributes of HTML, and the texts and titles of images and links that appear only under the pointer or not at all.
var hiddenParts = sync.OnceValue(func() []hiddenPart {
	const title = `(?:"[^"\n]*(?:\n[^"\n]+)*"|'[^'\n]*(?:\n[^'\n]+)*'|\([^()\n]*(?:\n[^()\n]+)*\))`
	return []hiddenPart{
		// Marks of quotations and lists may precede it, and its title may be on the next lines.
		{regexp.MustCompile(`(?m)^((?:[ \t]*(?:[>*+-]|[0-9]{1,9}[.)]))* {0,3})\[[^\]\n]+\]:[ \t]*\n?[ \t]*\S+(?:[ \t]*\n?[ \t]*` + title + `)?[ \t]*$`), "$1(a definition of a link is left out)"},
		{regexp.MustCompile(`(?m)^ {0,3}\[[^\]\n]+\]:.*$`), "(a definition of a link is left out)"},
		{regexp.MustCompile(`<(?:![A-Za-z\[]|\?)[^>]*>`), "(a comment that is not shown is left out)"},
		{regexp.MustCompile(`<(/?[A-Za-z][A-Za-z0-9-]*)[\s/](?:"[^"]*"|'[^']*'|[^<>])*>`), "<$1>"},
		{regexp.MustCompile(`!\[[^\]]*\]`), "![]"},
		{regexp.MustCompile(`(\]\((?:<[^<>\n]*>|[^\s()]|\([^\s()]*\))*)\s(?:"[^"]*"|'[^']*'|\([^()]*\)|[^()])*\)`), "$1)"},
	}
})

type hiddenPart struct {
	pattern *regexp.Regexp
	instead string
}

var htmlComment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)<!--.*?(-->|$)`) })

// StripHidden returns Markdown without the parts that a code host does not show: a person who hands the text to an agent has not
// read them. Comments are left out everywhere, other parts outside of blocks of code.
func StripHidden(body string) string {
	body = htmlComment().ReplaceAllString(strings.ReplaceAll(body, "\r\n", "\n"), "(a comment that is not shown is left out)")
	var out, prose []string
	flush := func() {
		text := strings.Join(prose, "\n")
		for _, h := range hiddenParts() {
			text = h.pattern.ReplaceAllString(text, h.instead)
		}
		if len(prose) > 0 {
			out = append(out, text)
		}
		prose = nil
	}
	fence, until := "", ""
	for line := range strings.SplitSeq(body, "\n") {
		switch {
		case fence != "":
			out = append(out, line)
			if closesFence(line, fence) && columnOf(line, " \t") <= 3 {
				fence = ""
			}
			continue
		case until != "": // within HTML, a fence is text
			if endsHTML(line, until) {
				until = ""
			}
		case strings.HasPrefix(strings.TrimLeft(autoLinks().ReplaceAllString(line, ""), " "), "<"):
			if until = htmlEnd(line); until == "</details>" {
				until = blank // Markdown continues within it
			}
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"): // others may be shown as text
			if fence = openedFence(line); fence != "" {
				flush()
				out = append(out, line)
				continue
			}
		}
		prose = append(prose, line)
	}
	flush()
	return strings.Join(out, "\n")
}
