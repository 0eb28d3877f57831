package text

import "testing"

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"", 3, ""}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"a😀b", 4, "a"}, {"a😀b", 5, "a😀"}, {"é", 1, ""}, {"é", 0, ""},
	} {
		if got := Cut(c.text, c.limit); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}
