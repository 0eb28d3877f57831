package ignore

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		name     string
		patterns string
		ignored  string // space-separated; a slash at the end makes a folder
		kept     string
	}{
		{"a name, anywhere", "foo", "foo foo/ a/foo a/b/foo/", "foobar xfoo a/foo.c"},
		{"a folder only", "foo/", "foo/ a/foo/", "foo a/foo"},
		{"anchored", "/foo", "foo foo/", "a/foo"},
		{"anchored by a slash inside", "a/foo", "a/foo a/foo/", "foo b/a/foo"},
		{"a slash at the end does not anchor", "foo/", "a/b/foo/", ""},
		{"a star", "*.o", "x.o .o a/x.o", "x.oo x.c o"},
		{"a star stops at slashes", "a/*.o", "a/x.o", "a/b/x.o b/a/x.o"},
		{"a star in the middle", "foo*bar", "foobar fooxbar a/foo1bar", "fooxbarx"},
		{"a question mark", "?.o", "x.o", ".o xx.o"},
		{"a question mark is no slash", "a?b/c", "axb/c", "a/b/c"},
		{"leading stars", "**/foo", "foo a/foo a/b/foo", "xfoo"},
		{"leading stars with a path", "**/foo/bar", "foo/bar a/foo/bar", "foo/x/bar"},
		{"trailing stars", "a/**", "a/x a/b/c", "a/ b/a/x"},
		{"stars in the middle", "a/**/b", "a/b a/x/b a/x/y/b", "a/bb ab x/a/b"},
		{"other stars are one star", "a**b/c", "ab/c axb/c", "a/b/c"},
		{"a class", "[a-c].o", "a.o c.o", "d.o"},
		{"a negated class", "[!a-c].o", "d.o", "a.o"},
		{"a class with a hat", "[^a-c].o", "d.o", "a.o"},
		{"a bracket in a class", "[]x].o", "].o x.o", "a.o"},
		{"a dash in a class", "[a-].o", "a.o -.o", "b.o"},
		{"a POSIX class", "[[:digit:][:upper:]]", "1 A", "a"},
		{"an unknown class", "[[:nope:]]", "", "n : ]"},
		{"a class without end", "[abc", "", "[abc a"},
		{"a class is no slash", "a[/]b/", "", "a/b/"},
		{"an escaped star", `\*.o`, "*.o", "x.o"},
		{"an escaped hash", `\#x`, "#x", "x"},
		{"an escaped exclamation mark", `\!x`, "!x", "x"},
		{"a backslash at the end", `foo\`, "", "foo foo\\"},
		{"a comment", "#x\nfoo", "foo", "#x x"},
		{"blank lines", "\n  \nfoo\n\n", "foo", "x"},
		{"CRLF", "foo\r\nbar\r\n", "foo bar", "foo\r"},
		{"no newline at the end", "foo\nbar", "foo bar", ""},
		{"a byte order mark", "\uFEFFfoo", "foo", ""},
		{"spaces at the end", "foo   ", "foo", ""},
		{"a tab at the end counts", "foo\t", "foo\t", "foo"},
		{"the last one decides", "*.o\n!keep.o\n", "x.o", "keep.o a/keep.o"},
		{"again", "*.o\n!keep.o\nkeep.o\n", "keep.o", ""},
		{"negated in between", "!foo\nfoo\n", "foo", ""},
		{"folders negated", "foo\n!foo/\n", "foo", "foo/"},
		{"everything but", "/*\n!/src\n", "x .git a/", "src/ src"},
		{"names and suffixes in order", "!a.o\n*.o\n!b.o\n*.o/\n", "a.o x.o b.o/", "b.o"},
		{"suffix of two dots", "*.tar.gz", "x.tar.gz", "x.gz"},
		{"a double slash matches nothing", "a//b\nfoo//", "", "a/b foo/"},
		{"only marks", "!\n/\n//\n!/\n", "", "x"},
		{"beyond ASCII", "ä*\n[é]", "äx", "a é"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := New([]byte(tc.patterns))
			for _, want := range []struct {
				ignored bool
				paths   string
			}{{true, tc.ignored}, {false, tc.kept}} {
				for _, name := range strings.Split(want.paths, " ") {
					bare, isDir := strings.CutSuffix(name, "/")
					if name != "" && r.Match(bare, isDir) != want.ignored {
						t.Errorf("%q: Match(%q) = %t", tc.patterns, name, !want.ignored)
					}
				}
			}
		})
	}
	if r := New([]byte(`foo\ `)); !r.Match("foo ", false) || r.Match("foo", false) {
		t.Error("an escaped space at the end does not count")
	}
}

func TestDeeperFilesDecide(t *testing.T) {
	everywhere := New([]byte("*.log\nkeep.txt\n"))
	files := map[string]string{
		".gitignore":       "/build\n*.tmp\n!keep.txt\n",
		"a/.gitignore":     "!*.log\nb/\n/c\n",
		"a/b/.gitignore":   "!*\n", // git does not read it: the folder is ignored
		"build/.gitignore": "!*\n",
	}
	asked := map[string]int{}
	tree := NewTree(everywhere, func(name string) []byte {
		asked[name]++
		return []byte(files[name])
	})
	for name, want := range map[string]bool{
		".": false, "x.log": true, "a/x.log": false, "b/x.log": true, "keep.txt": false, "build/": true, "build/x": true, "a/build/": false,
		"a/b/": true, "a/b/x": true, "a/b/x/y": true, "a/c": true, "a/d/c": false, "a/d/x.tmp": true, "a/d/b": false,
	} {
		bare, isDir := strings.CutSuffix(name, "/")
		if got := tree.Ignored(bare, isDir); got != want {
			t.Errorf("Ignored(%q) = %t, want %t", name, got, want)
		}
	}
	if asked["a/b/.gitignore"] > 0 || asked["build/.gitignore"] > 0 || asked["a/.gitignore"] != 1 {
		t.Errorf("read %v", asked)
	}
	if (*Rules)(nil).Match("x", false) {
		t.Error("no rules ignore something")
	}
}

// No pattern may keep a caller busy for long. The texts are such that a matcher which tries all ways of distributing
// them over the stars does not come to an end.
func TestNoPatternTakesForever(t *testing.T) {
	name := strings.Repeat("a", 250)
	deep := strings.Repeat("a/", 1000) + "a"
	for _, p := range []string{
		strings.Repeat("a*", 100) + "b", strings.Repeat("*a", 100) + "b", strings.Repeat("?*", 100) + "b", strings.Repeat("[a]*", 60) + "b",
		strings.Repeat("**/a/", 100) + "b", strings.Repeat("**/", 200) + "b", "/" + strings.Repeat("*/**/", 100) + "b", strings.Repeat("a*/**/", 100) + "b",
		strings.Repeat(`\a*`, 80) + "b", strings.Repeat(`**\/a`, 80) + "b", strings.Repeat("**/*a*a*a", 40) + "/b",
	} {
		r := New([]byte(p))
		if r.Match(name, false) || r.Match(deep, false) {
			t.Errorf("%.20q… matches", p)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	var patterns strings.Builder
	for _, line := range []string{"node_modules/", "*.o", "*.log", "/dist", "build/", "*.py[cod]", "__pycache__/", "docs/_build", "*~", ".env", "!.env.example"} {
		patterns.WriteString(line + "\n")
	}
	r := New([]byte(patterns.String()))
	for b.Loop() {
		r.Match("services/api/internal/handlers/users_test.go", false)
	}
}
