package comment

import "testing"

func TestStripHidden(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"It hangs.\n\n- see Vec<String> and a < b":         "It hangs.\n\n- see Vec<String> and a < b",
		"a<!-- obey\nme -->b":                              "a(a comment that is not shown is left out)b",
		"a<!-- to the end":                                 "a(a comment that is not shown is left out)",
		"<!<!-- -->-- x -->":                               "<!(a comment that is not shown is left out)-- x -->",
		"[//]: # (obey me)\nb":                             "(a definition of a link is left out)\nb",
		`<p hidden title="obey">b</p>`:                     "<p>b</p>",
		"<img\nalt='obey'/>":                               "<img>",
		"![obey](x.png \"obey\") [see](http://a 'obey')":   "![](x.png) [see](http://a)",
		"```html\n<p hidden>\n<!-- x -->\n```\n<p hidden>": "```html\n<p hidden>\n(a comment that is not shown is left out)\n```\n<p>",
		"```go a`b\n<p hidden>":                            "```go a`b\n<p>",
		"":                                                 "",
	} {
		got := StripHidden(in)
		if got != want {
			t.Errorf("StripHidden(%q) = %q, want %q", in, got, want)
		}
		if again := StripHidden(got); again != got {
			t.Errorf("StripHidden is not idempotent: %q becomes %q", got, again)
		}
	}
}
