package dashboard

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestRenderMarkdown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"one\ntwo\n\nthree":                "<p>one\ntwo</p><p>three</p>",
		"## A `b` #":                       "<h4>A <code>b</code></h4>",
		"- a\n- b\n  more":                 "<ul><li>a</li><li>b\nmore</li></ul>",
		"1. a\n2) b":                       "<ol><li>a</li><li>b</li></ol>",
		"> a\n> b":                         "<blockquote>a\nb</blockquote>",
		"```go\n<b>*x*\n```":               "<pre>&lt;b&gt;*x*</pre>",
		"# C# ##  ":                        "<h4>C#</h4>",
		"```a``` b\n\nc":                   "<p><code>a</code> b</p><p>c</p>",
		"~~~ a`b\nc\n~~~\nd":               "<pre>c</pre><p>d</p>",
		"~~~\nnever closed":                "<pre>never closed</pre>",
		"**a *b* c** _d_ e_f":              "<p><b>a <i>b</i> c</b> <i>d</i> e_f</p>",
		"2 * 3 * 4 \\*x\\*":                "<p>2 * 3 * 4 *x*</p>",
		"``a`b`` `` ` ":                    "<p><code>a`b</code> `` ` </p>",
		"[docs](https://go.dev/x?a=1&b=2)": `<p><a href="https://go.dev/x?a=1&amp;b=2" rel="noreferrer noopener nofollow">docs</a> (go.dev)</p>`,
		"![pixel](https://evil.example/p)": `<p><a href="https://evil.example/p" rel="noreferrer noopener nofollow">image: pixel</a> (evil.example)</p>`,
		"[x](javascript:alert(1))":         "<p>[x](javascript:alert(1))</p>",
		"[x](https://u:p@evil.example/)":   "<p>[x](https://u:p@evil.example/)</p>",
		"<img src=x onerror=pwned=1>":      "<p>&lt;img src=x onerror=pwned=1&gt;</p>",
		"a\u202e\x1b[31mb":                 "<p>a[31mb</p>",
	} {
		if got := string(renderMarkdown(text)); got != `<div class="md">`+want+"</div>" {
			t.Errorf("renderMarkdown(%q) =\n%s, want\n%s", text, got, want)
		}
	}
}

// TestMarkdownIsHarmless: whatever the text, the elements are those of the policy, closed in order, and few.
func TestMarkdownIsHarmless(t *testing.T) {
	t.Parallel()
	pieces := []string{"*", "**", "_", "`", "```", "\n", "\n\n", "- ", "1. ", "> ", "# ", "[", "](", ")", "!", "https://a.example/", "javascript:", "<script>", "\"", "'", "&lt;", "<a href=", "\\", " ", "x", "é", "~~~"}
	tag := regexp.MustCompile(`</?([a-z0-9]+)( href="https?://[^"<>\s]*" rel="noreferrer noopener nofollow"| class="(?:md|note)")?>`)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var text strings.Builder
		for range random.IntN(60) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		html := string(renderMarkdown(text.String()))
		if rest := tag.ReplaceAllString(html, ""); strings.ContainsAny(rest, "<>\"'") {
			t.Fatalf("renderMarkdown(%q) = %s", text.String(), html)
		}
		var open []string
		for _, m := range tag.FindAllStringSubmatch(html, -1) {
			if !strings.HasPrefix(m[0], "</") {
				open = append(open, m[1])
			} else if len(open) == 0 || open[len(open)-1] != m[1] {
				t.Fatalf("renderMarkdown(%q) closes %s: %s", text.String(), m[1], html)
			} else {
				open = open[:len(open)-1]
			}
		}
	}
	for _, long := range []string{strings.Repeat("- x\n", 1e5), strings.Repeat("*a ", 1e5), strings.Repeat("`", 1e5), strings.Repeat("# x\n", 1e5), strings.Repeat("x\n\n", 1e5)} {
		if html := string(renderMarkdown(long)); strings.Count(html, "<") > 4*maxBlocks || !strings.Contains(html, "longer") {
			t.Errorf("%.9q… makes %d tags", long, strings.Count(html, "<"))
		}
	}
}
