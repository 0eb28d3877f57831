package dashboard

import "testing"

func TestCutText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"", 3, ""}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"a😀b", 4, "a"}, {"a😀b", 5, "a😀"}, {"é", 1, ""}, {"é", 0, ""},
	} {
		if got := cutText(c.text, c.most); got != c.want {
			t.Errorf("cutText(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
