package run

import "testing"

func TestCountChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ patch, want string }{
		{"", "+0 -0"},
		{"--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- a comment of SQL\n select 1;\n+select 2;\n", "+1 -1"},
		{"--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n-cut", ""},
	} {
		if got := countChange(c.patch); got != c.want {
			t.Errorf("countChange(%q) = %q, want %q", c.patch, got, c.want)
		}
	}
}
