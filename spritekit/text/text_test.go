package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext":                    "plain\n\ttext",
		"\x1b[1;31mred\x1b[0m":             "red",
		"\x1b]8;;http://x\x1b\\link\x1b]8": "link8",
		"\x1b(B\x1b[mplain\x1b)0\x1b#8":    "plain",
		"a\x1b\nb\x1b(\nc\x1b\r\nd":        "a\nb\nc\nd",
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

// Each invisible character is shown by its number, and named; joiners in words and emoji of other scripts are not.
func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"fix\n\tit":                 "fix\n\tit",
		"a\u202etxt.exe":            "a<U+202E>txt.exe",
		"a\u2066b\u2069":            "a<U+2066>b<U+2069>",
		"ad\u200bmin":               "ad<U+200B>min",
		"ad\u200dmin \u200d":        "ad<U+200D>min <U+200D>",
		"\ufeffa\u00adb\u2060":      "<U+FEFF>a<U+00AD>b<U+2060>",
		"go\U000e0061\U000e007f":    "go<U+E0061><U+E007F>",
		"x\ufe0f 😀\ufe01\U000e0101": "x<U+FE0F> 😀<U+FE01><U+E0101>",
		"a\u2028b\u3164":            "a<U+2028>b<U+3164>",
		"👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3": "👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3",
		"نمی\u200cخواهم":                        "نمی\u200cخواهم",
		"é\u200d\u200dé":                        "é<U+200D><U+200D>é",
		"\x1b[31mred\u009b":                     "[31mred",
	} {
		got := Visible(in)
		if got != want || Visible(got) != got {
			t.Errorf("Visible(%q) = %q, want %q", in, got, want)
		}
		if named := Invisible(in); (len(named) > 0) != strings.Contains(want, "<U+") || Invisible(got) != nil {
			t.Errorf("Invisible(%q) = %v", in, named)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	const s = "aä€😀z"
	for limit := -1; limit < len(s)+2; limit++ {
		for name, got := range map[string]string{"Cut": Cut(s, limit), "Head": Head(s, limit), "Ends": Ends(s, "…", limit)} {
			if len(got) > max(limit, 0) || !utf8.ValidString(got) || len(s) <= limit && got != s {
				t.Errorf("%s to %d bytes = %q", name, limit, got)
			}
			if cut := limit >= 3 && limit < len(s) && name != "Cut"; cut != strings.Contains(got, "…") {
				t.Errorf("%s to %d bytes = %q, want … in it: %v", name, limit, got, cut)
			}
		}
		if got := HeadRunes(s, limit); utf8.RuneCountInString(got) > max(limit, 0) || limit >= 5 && got != s {
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
