package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":                    "plain\n\ttext",
		"\x1b[1;31mred\x1b[0m":             "red",
		"\x1b]8;;http://x\x1b\\link\x1b]8": "link8",
		"\u241b[31mred":                    "red",
		"a\r\nb\rc":                        "a\nb\nc",
		"\x07\x7f\u009bx":                  "x",
		"abc\u202ecba\u2066\ufeff\u200b":   "abccba",
		"👩\u200d👧 نمی\u200cخواهم":          "👩\u200d👧 نمی\u200cخواهم",
		"a\xffb":                           "a\ufffdb",
		"\u241bx":                          "\u241bx",
		"\x1b":                             "",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Line(" a\nb\tc\x1b[K "); got != "a b c[K" {
		t.Errorf("Line = %q", got)
	}
}

func TestLimits(t *testing.T) {
	const s = "aä€😀z"
	for limit := range len(s) + 2 {
		for name, got := range map[string]string{"Head": Head(s, limit+3), "Ends": Ends(s, "…", limit+3)} {
			if len(got) > limit+3 || !utf8.ValidString(got) || len(s) <= limit+3 && got != s {
				t.Errorf("%s to %d bytes = %q", name, limit+3, got)
			}
		}
		if got := HeadRunes(s, limit); utf8.RuneCountInString(got) > limit || limit >= 5 && got != s {
			t.Errorf("HeadRunes to %d = %q", limit, got)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31m\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r == 0x1b || r == '\r' }) || Clean(got) != got {
			t.Errorf("Clean(%q) = %q", s, got)
		}
	})
}
