package cli

import "testing"

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"", 3, ""},
		{"abc", 4, "abc"},
		{"abc", 3, "abc"},
		{"äöü", 3, "äöü"},
		{"abcd", 3, "ab…\x1b[0m"},
		{"\x1b[31mabc\x1b[0m", 3, "\x1b[31mabc\x1b[0m"},
		{"\x1b[31mabcd\x1b[0m", 3, "\x1b[31mab…\x1b[0m"},
		{"abcd", 1, "…\x1b[0m"},
	} {
		if got := Cut(c.line, c.width); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.line, c.width, got, c.want)
		}
	}
}
