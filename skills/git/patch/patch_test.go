package patch

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const text = "From 1 Mon Sep 17\nSubject: words\n\n---\n a | 2 +-\n\n" +
		"diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@ func x\n one\n-two\n+2\n+zwei\n three\n@@ -10 +11 @@\n-ten\n\\ No newline at end of file\n+10\n" +
		"diff --git \"a/tab\\tq\\\"\\303\\251\" \"b/tab\\tq\\\"\\303\\251\"\nold mode 100644\nnew mode 100755\n" +
		"diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n" +
		"diff --git a/x y b/x y\nnew file mode 120000\nindex 0..1\n--- /dev/null\n+++ b/x y\t\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n" +
		"diff --git a/bin b/bin\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKc$y\n\nliteral 2\nJc$z\n\n" +
		"diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" +
		"--- dir/plain\t2026-01-01\n+++ dir/plain\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39\n"
	files, err := Parse([]byte(text), 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []File
	rebuilt := Select([]byte(text), files)
	for _, f := range files {
		f.Start, f.End = 0, 0
		got = append(got, f)
	}
	want := []File{
		{Old: "a", New: "a", Status: "M", Hunks: []Hunk{{1, 3, 1, 4}, {10, 1, 11, 1}}},
		{Old: "tab\tq\"é", New: "tab\tq\"é", Status: "M", Mode: "100755"},
		{Old: "old name", New: "new name", Status: "R"},
		{New: "x y", Status: "A", Mode: "120000", Hunks: []Hunk{{0, 0, 1, 1}}},
		{Old: "bin", New: "bin", Status: "M", Binary: true},
		{Old: "gone", Status: "D", Hunks: []Hunk{{1, 1, 0, 0}}},
		{Old: "plain", New: "plain", Status: "M", Hunks: []Hunk{{1, 1, 1, 1}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Parse = %+v\nwant %+v", got, want)
	}
	again, err := Parse(rebuilt, 1)
	if err != nil || len(again) != len(files) {
		t.Errorf("what Select keeps is %d files, %v, want %d", len(again), err, len(files))
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		line int
	}{
		"nothing":                      {"words\n", 1},
		"a hunk alone":                 {"words\n@@ -1 +1 @@\n", 2},
		"a short hunk":                 {"--- a/a\n+++ b/a\n@@ -1,2 +1 @@\n-x\n", 5},
		"a long hunk":                  {"--- a/a\n+++ b/a\n@@ -1,1 +0,0 @@\n x\n", 4},
		"a line of none":               {"--- a/a\n+++ b/a\n@@ -1 +1 @@\nx\n", 4},
		"numbers with signs":           {"--- a/a\n+++ b/a\n@@ -+1 +1 @@\n-x\n", 3},
		"numbers without end":          {"--- a/a\n+++ b/a\n@@ -99999999999999999999 +1 @@\n-x\n", 3},
		"two names":                    {"diff --git a/a b/b\n--- a/a\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"no name":                      {"diff --git a/a b/b\nold mode 100644\nnew mode 100755\n", 1},
		"a name that is too short":     {"--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a name after /dev/null":       {"--- /dev/nullx\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"a rename of another":          {"diff --git a/a b/b\nrename from a\nrename to b\n--- a/c\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"made and deleted":             {"diff --git a/a b/a\nnew file mode 100644\ndeleted file mode 100644\n", 1},
		"a mode with a zero before":    {"diff --git a/a b/a\nnew file mode 0120000\n", 1},
		"a mode with words behind":     {"diff --git a/a b/a\nold mode 100644\nnew mode 120000 x\n", 1},
		"a mode with a sign":           {"diff --git a/a b/a\nnew file mode +20000\n", 1},
		"a quote that does not end":    {"--- \"a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n", 1},
		"an octal number that is none": {"--- \"a/\\9\"\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n", 1},
	} {
		files, err := Parse([]byte(test.text), 1)
		var at *Error
		if !errors.As(err, &at) || at.Line != test.line {
			t.Errorf("%s: Parse = %+v, %v, want an error at line %d", name, files, err, test.line)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "a/b", ".gitignore", ".github/x", "git~2", "a.git", "x/.gitmodules", "...", "a..b", ".git-x", "gitx", " .git", "日本", "-f", ":(top)x"} {
		if problem := Judge(name, false); problem != "" {
			t.Errorf("Judge(%q) = %s", name, problem)
		}
	}
	for _, name := range []string{
		"", "/", "/a", "..", "../a", "a/..", "a/../b", "a/./b", "a//b", "a/", ".git", ".git/x", "a/.GiT", "a/.git/hooks/x", "git~1/x", "GIT~1", ".git ", ".git.", ".git...", ".git::$INDEX_ALLOCATION",
		".g\u200cit/x", ".git\u200d", "\ufeff.git", `..\a`, `a\.git\x`, "a\x00b",
	} {
		if Judge(name, false) == "" {
			t.Errorf("Judge(%q) finds nothing wrong", name)
		}
	}
	if Judge(".gitmodules", true) == "" || Judge(".gitmodules", false) != "" {
		t.Error("only a link may not be called .gitmodules")
	}
}

func TestLinksThatThePatchMakes(t *testing.T) {
	t.Parallel()
	files := Files{{New: "door", Status: "A", Mode: ModeSymlink}, {New: "door/x", Status: "A"}}
	if name, problem := files.Judge(); name != "door/x" || !strings.Contains(problem, "door") {
		t.Errorf("Judge = %q %q", name, problem)
	}
	if _, problem := (Files{{Old: "a", New: "b", Status: "R"}}).Judge(); problem != "" {
		t.Error(problem)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n", 1)
	f.Add("diff --git \"a/\\303\" \"b/\\303\"\nrename from x\ncopy to y\nGIT binary patch\nliteral 1\nx\n\n", 0)
	f.Fuzz(func(t *testing.T, text string, strip int) {
		files, err := Parse([]byte(text), strip%40)
		end := 0
		for _, file := range files {
			if err != nil || file.Start < end || file.End < file.Start || file.End > len(text) || file.Path() == "" {
				t.Fatalf("%v: %+v", err, files)
			}
			end = file.End
		}
		files.Judge()
	})
}
