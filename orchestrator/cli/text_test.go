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

func TestFormatBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1 << 10: "1.0 KiB", 1<<20 - 1: "1.0 MiB", 1<<20 - 51: "1.0 MiB", 1<<20 - 100: "1023.9 KiB", 1<<30 - 1: "1.0 GiB", 1 << 50: "1024.0 TiB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %s, want %s", n, got, want)
		}
	}
}
