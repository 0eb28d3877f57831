package run

import "testing"

func TestLocalName(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"a":                  "a",
		"a/b.txt":            "a/b.txt",
		"./a//b":             "a/b",
		"a/../b":             "b",
		"/workspace/out/a":   "out/a",
		"/workspace/../etc":  "etc",
		"/home/sprite/notes": "home/sprite/notes",
		"…/ä b":              "…/ä b",
		"..":                 "",
		"../a":               "",
		"a/../../b":          "",
		".":                  "",
		"":                   "",
		"/":                  "",
		"a/.git/config":      "",
		".GIT/hooks/x":       "",
		"a\nb":               "",
		"a\x1b[2J":           "",
		"\xff":               "",
	} {
		got, err := localName(ref)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("localName(%q) = %q, %v, want %q", ref, got, err, want)
		}
	}
}
