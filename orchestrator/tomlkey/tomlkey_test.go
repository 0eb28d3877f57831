package tomlkey

import "testing"

func TestLines(t *testing.T) {
	t.Parallel()
	lines := Parse("# a = 1\nlevel = 1\n\n[ \"run\" ]\nallow.first = []\n\n[[paths]]\nname = 'a'\n[[paths]]\nname = 'b'\n")
	for key, want := range map[string]int{
		"level": 2, "run": 4, "run.allow": 5, "run.allow.first": 5, "run.missing": 4, "paths[0].name": 8, "paths[1]": 9, "paths[1].name": 10, "a": 0, "": 0,
	} {
		if got := lines.Of(key); got != want {
			t.Errorf("the line of %q is %d, want %d", key, got, want)
		}
	}
}
