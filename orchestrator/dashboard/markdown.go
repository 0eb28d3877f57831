package dashboard

import (
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/spritekit/lattice/spritekit/text"
)

// Bounds of a text that is shown as Markdown. The rest of a longer one is left out; a mark of emphasis or code that is not closed
// within maxSpan bytes is text.
const (
	maxMarkdown = 64 << 10
	maxBlocks   = 300
	maxSpan     = 2000
	maxNested   = 4 // of emphasis
)

// renderMarkdown shows text of sprites and people as Markdown, by a policy of its own: headings, paragraphs, lists, quotes, code,
// emphasis and links to web pages, which show where they lead. HTML is text, an image is a link to it, and everything else is text
// as well. Line ends within a paragraph stay.
func renderMarkdown(source string) template.HTML {
	m := &markdown{}
	cut := len(source) > maxMarkdown
	m.renderBlocks(strings.Split(visibleText(text.Cut(source, maxMarkdown)), "\n"))
	if cut || m.blocks > maxBlocks {
		m.out.WriteString(`<p class="note">… the text is longer</p>`)
	}
	return template.HTML(`<div class="md">` + m.out.String() + `</div>`) // each text in it went through m.text
}

// markdown writes HTML.
type markdown struct {
	out    strings.Builder
	blocks int
}

// The beginnings of lines that make blocks.
var (
	headingLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^#{1,6} +(.*?)(?: +#+)? *$`) })
	bulletLine  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ *[-*+] +(.*)$`) })
	numberLine  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ *\d{1,9}[.)] +(.*)$`) })
	quoteLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ {0,3}> ?(.*)$`) })
	fenceLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^ *(?:(`{3,})[^`]*|(~{3,}).*)$") })
)

func (m *markdown) renderBlocks(lines []string) {
	for i := 0; i < len(lines); {
		if strings.TrimSpace(lines[i]) == "" {
			i++
			continue
		}
		if m.blocks++; m.blocks > maxBlocks {
			return
		}
		from := i
		if fence := fenceLine().FindStringSubmatch(lines[i]); fence != nil {
			for i++; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), fence[1]+fence[2]); i++ {
			}
			m.out.WriteString("<pre>")
			m.text(strings.Join(lines[from+1:i], "\n"))
			m.out.WriteString("</pre>")
			i++
			continue
		}
		if h := headingLine().FindStringSubmatch(lines[i]); h != nil {
			m.wrap("h4", h[1])
			i++
			continue
		}
		kind := blockOf(lines[i])
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "" && continues(kind, lines[i]); i++ {
		}
		m.renderBlock(kind, lines[from:i])
	}
}

// blockOf returns the element for a block that begins with a line.
func blockOf(line string) string {
	switch {
	case bulletLine().MatchString(line):
		return "ul"
	case numberLine().MatchString(line):
		return "ol"
	case quoteLine().MatchString(line):
		return "blockquote"
	}
	return "p"
}

// continues reports whether a line belongs to a block that began before it: a line without a mark does.
func continues(kind, line string) bool {
	next := blockOf(line)
	return (next == kind || next == "p") && !fenceLine().MatchString(line) && !headingLine().MatchString(line)
}

func (m *markdown) renderBlock(kind string, lines []string) {
	mark := map[string]func() *regexp.Regexp{"ul": bulletLine, "ol": numberLine, "blockquote": quoteLine}[kind]
	if mark == nil {
		m.wrap(kind, strings.Join(lines, "\n"))
		return
	}
	var items []string
	for _, line := range lines {
		marked := mark().FindStringSubmatch(line)
		switch {
		case marked == nil:
			items[len(items)-1] += "\n" + strings.TrimSpace(line)
		case kind == "blockquote" && len(items) > 0:
			items[0] += "\n" + marked[1]
		default:
			items = append(items, marked[1])
		}
	}
	if kind == "blockquote" {
		m.wrap(kind, items[0])
		return
	}
	m.out.WriteString("<" + kind + ">")
	for _, item := range items {
		if m.blocks++; m.blocks > maxBlocks {
			break
		}
		m.wrap("li", item)
	}
	m.out.WriteString("</" + kind + ">")
}

// wrap writes an element with a text that has inline marks.
func (m *markdown) wrap(element, text string) {
	m.out.WriteString("<" + element + ">")
	m.inline(text, 0)
	m.out.WriteString("</" + element + ">")
}

// text writes text as it is.
func (m *markdown) text(s string) { m.out.WriteString(template.HTMLEscapeString(s)) }

// linkMark matches a link or an image, of web addresses alone.
var linkMark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(!?)\[([^\[\]]{0,300})\]\((https?://[^\s()<>"]{1,1000})\)`)
})

// inline writes a text with emphasis, code and links.
func (m *markdown) inline(s string, depth int) {
	from := 0 // of text that was not written yet
	for i := 0; i < len(s); {
		width := 0
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && strings.IndexByte("\\`*_[]!#>-", s[i+1]) >= 0:
			m.text(s[from:i])
			from, i = i+1, i+2
			continue
		case c == '`':
			ticks := s[i : len(s)-len(strings.TrimLeft(s[i:], "`"))]
			if width = m.tryCode(s, from, i, ticks); width == 0 {
				i += len(ticks)
				continue
			}
		case c == '*' || c == '_':
			width = m.tryEmphasis(s, from, i, depth)
		case c == '[' || c == '!':
			width = m.tryLink(s, from, i)
		}
		if width == 0 {
			i++
			continue
		}
		i += width
		from = i
	}
	m.text(s[from:])
}

// tryCode writes the code that begins with ticks at i, after the text from from. It returns the length of the code, 0 if there is
// none; so do the others.
func (m *markdown) tryCode(s string, from, i int, ticks string) int {
	rest := s[i+len(ticks):]
	end := strings.Index(rest[:min(len(rest), maxSpan)], ticks)
	if end <= 0 {
		return 0
	}
	m.text(s[from:i])
	m.out.WriteString("<code>")
	m.text(strings.TrimSpace(rest[:end]))
	m.out.WriteString("</code>")
	return end + 2*len(ticks)
}

func (m *markdown) tryEmphasis(s string, from, i, depth int) int {
	sign, element := s[i:i+1], "i"
	if strings.HasPrefix(s[i+1:], sign) {
		sign, element = s[i:i+2], "b"
	}
	rest := s[i+len(sign):]
	end := strings.Index(rest[:min(len(rest), maxSpan)], sign)
	inWord := sign[0] == '_' && (i > 0 && isWord(s[i-1]) || end >= 0 && end+len(sign) < len(rest) && isWord(rest[end+len(sign)]))
	if end <= 0 || depth == maxNested || inWord || strings.ContainsAny(rest[:1]+rest[end-1:end], " \n") {
		return 0
	}
	m.text(s[from:i])
	m.out.WriteString("<" + element + ">")
	m.inline(rest[:end], depth+1)
	m.out.WriteString("</" + element + ">")
	return end + 2*len(sign)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func (m *markdown) tryLink(s string, from, i int) int {
	link := linkMark().FindStringSubmatch(s[i:])
	if link == nil {
		return 0
	}
	to, err := url.Parse(link[3])
	if err != nil || to.Host == "" || to.User != nil {
		return 0
	}
	m.text(s[from:i])
	name := link[2]
	if link[1] != "" {
		name = "image: " + name
	}
	fmt.Fprintf(&m.out, `<a href="%s" rel="noreferrer noopener nofollow">`, template.HTMLEscapeString(to.String()))
	m.text(name)
	m.out.WriteString("</a>")
	if name != to.String() {
		m.text(" (" + to.Host + ")")
	}
	return len(link[0])
}
