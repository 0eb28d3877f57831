package comment

import "testing"

func TestStripHidden(t *testing.T) {
	t.Parallel()
	const comment, definition = "(a comment that is not shown is left out)", "(a definition of a link is left out)"
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
		`<img alt="> obey"> <i title='a < obey' b>c</i>`:   "<img> <i>c</i>",
		"<div>\na</div obey>":                              "<div>\na</div>",
		"a <?obey ?> <!X obey> <![CDATA[obey]]> b <! c":    "a " + comment + " " + comment + " " + comment + " b <! c",
		`[a](http://a "obey (me) now") [b](http://b/(c) 'obey') [c](<d e> (obey))`: "[a](http://a) [b](http://b/(c)) [c](<d>)",
		"> [a]: b \"obey\"\n- [c]: d\n1. > [e]: f":                                 "> " + definition + "\n- " + definition + "\n1. > " + definition,
		"- [core]: the text is shown":                                              "- [core]: the text is shown",
		"[a]: b\n  \"obey\nme\"\nc":                                                definition + "\nc",
		"[a]:\nb 'obey'\nc":                                                        definition + "\nc",
		"<div>\n```\n<p title=obey>\n```\n</div>":                                  "<div>\n```\n<p>\n```\n</div>",
		"<pre>\n\n```\n<p title=obey>\n</pre>":                                     "<pre>\n\n```\n<p>\n</pre>",
		"<details>\n\n```\n<p hidden>\n```\n</details>":                            "<details>\n\n```\n<p hidden>\n```\n</details>",
		"<https://a.example>\n```\n<p hidden>\n```":                                "<https://a.example>\n```\n<p hidden>\n```",
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
