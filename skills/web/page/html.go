package page

import (
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// skipped are the elements whose content is not text of the page.
var skipped = []atom.Atom{atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Textarea, atom.Select}

// inline are the elements that do not end a line. All others do.
var inline = []atom.Atom{atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Cite, atom.Code, atom.Data, atom.Del, atom.Dfn, atom.Em, atom.Font, atom.I,
	atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Q, atom.S, atom.Samp, atom.Small, atom.Span, atom.Strong, atom.Sub, atom.Sup, atom.Time, atom.Tt, atom.U,
	atom.Var, atom.Wbr, atom.Img}

// readHTML returns the title and the text of a page: a line for each block, without markup.
func readHTML(r io.Reader) (title, text string, err error) {
	z := html.NewTokenizer(r)
	var b, heading strings.Builder
	var within []atom.Atom // open elements that are skipped, without duplicates
	inTitle, inPre := false, false
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return "", "", err
			}
			return tidyLine(heading.String()), tidyLines(b.String()), nil
		case html.TextToken:
			switch {
			case inTitle:
				heading.Write(z.Text())
			case len(within) == 0 && inPre:
				b.Write(z.Text())
			case len(within) == 0:
				b.WriteString(strings.ReplaceAll(string(z.Text()), "\n", " "))
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			switch {
			case tag == atom.Title && len(within) == 0:
				inTitle = kind == html.StartTagToken
			case slices.Contains(skipped, tag) && kind == html.StartTagToken:
				if !slices.Contains(within, tag) { // the end tag of the outer element closes it and those within
					within = append(within, tag)
				}
			case slices.Contains(skipped, tag) && kind == html.EndTagToken:
				if i := slices.Index(within, tag); i >= 0 {
					within = within[:i]
				}
			case !slices.Contains(inline, tag) && len(within) == 0:
				b.WriteByte('\n')
				if tag == atom.Pre {
					inPre = kind == html.StartTagToken
				}
			}
		}
	}
}

func tidyLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// tidyLines removes empty lines and white space that is not shown.
func tidyLines(s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		if line = tidyLine(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}
