package publish

import (
	"strings"
	"testing"
)

func TestMute(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"no sign":                         "no sign",
		"@ann look":                       "@|ann look",
		"(@acme/team)":                    "(@|acme/team)",
		"a\n@ann":                         "a\n@|ann",
		"\\@ann":                          "\\@|ann",
		"@@ann":                           "@|@|ann",
		"é@ann":                           "é@|ann",
		"a.b+c@example.com":               "a.b+c@example.com",
		"npm i left-pad@1.2":              "npm i left-pad@1.2",
		"npm i @acme/pad":                 "npm i @|acme/pad",
		"&#64;ann &#x0040;bob &commat;al": "&#64;|ann &#x0040;|bob &commat;|al",
		"@&#97;nn":                        "@|&#97;nn",
		"<p>&nbsp@ann</p>":                "<p>&nbsp@|ann</p>",
		"<p>&#32@ann</p>":                 "<p>&#32@|ann</p>",
		"ends with @":                     "ends with @",
		"![x](https://e.example/?q=1)":    "!|[x](https://e.example/?q=1)",
		"<IMG src=x><picture>":            "<|IMG src=x><|picture>",
		"[a link](https://e.example/)":    "[a link](https://e.example/)",
	} {
		want = strings.ReplaceAll(want, "|", gap)
		if got := Mute(text); got != want {
			t.Errorf("Mute(%q) = %q, want %q", text, got, want)
		}
	}
}
