package unified

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// randomText makes some lines of few kinds, and other makes another version of it.
func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString([]string{"a\n", "b\n", "c\n", "\n", "-x\n", "+y\n", "\\ z\n", "-- q\n", "ä\r\n", "@@ -1 +1 @@\n"}[r.IntN(10)])
	}
	s := b.String()
	if r.IntN(3) == 0 {
		s = strings.TrimSuffix(s, "\n")
	}
	return s
}

func other(r *rand.Rand, s string) string {
	lines := splitLines(s)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(lines) + 1)
		end := min(len(lines), at+r.IntN(4))
		lines = append(append(append([]string(nil), lines[:at]...), splitLines(randomText(r, r.IntN(4)))...), lines[end:]...)
		for i, line := range lines { // a line without end only at the end
			if i < len(lines)-1 && !strings.HasSuffix(line, "\n") {
				lines[i] += "\n"
			}
		}
	}
	return strings.Join(lines, "")
}

func apply(t *testing.T, patch, old string) string {
	t.Helper()
	files, err := Parse(patch)
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, patch)
	}
	if len(files) != 1 {
		t.Fatalf("%d files in\n%s", len(files), patch)
	}
	got, applied, rejects := files[0].Apply(old, 0)
	if rejects != nil {
		t.Fatalf("rejected: %+v in\n%s\nfor %q", rejects, patch, old)
	}
	for _, a := range applied {
		if a != (Applied{}) {
			t.Errorf("a hunk was found elsewhere: %+v in\n%s\nfor %q", a, patch, old)
		}
	}
	return got
}

// What the tools of others write is applied to what they wrote it for, forwards and backwards, and what Diff writes, too.
func TestRoundTrips(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	makers := map[string]func(old, new string) string{"Diff": func(old, new string) string { return Diff("a", "b", old, new) }}
	for name, argv := range map[string][]string{
		"diff -u": {"diff", "-u", a, b}, "diff -U0": {"diff", "-U0", a, b}, "diff -U1": {"diff", "-U1", a, b},
		"git diff":            {"git", "diff", "--no-index", "--", a, b},
		"git diff --patience": {"git", "diff", "--no-index", "--patience", "-U5", "--", a, b},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Logf("without %s: %v", name, err)
			continue
		}
		makers[name] = func(_, _ string) string {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
				t.Fatalf("%v: %v\n%s", argv, err, stderr.String())
			}
			return string(out)
		}
	}
	for round := range 60 {
		old := randomText(r, r.IntN(40))
		new := other(r, old)
		if old == new || old == "" || new == "" {
			continue
		}
		if err := errors.Join(os.WriteFile(a, []byte(old), 0o644), os.WriteFile(b, []byte(new), 0o644)); err != nil {
			t.Fatal(err)
		}
		for name, make := range makers {
			patch := make(old, new)
			if got := apply(t, patch, old); got != new {
				t.Fatalf("seed %d, round %d: %s applied to %q gives %q, want %q\n%s", seed, round, name, old, got, new, patch)
			}
			files, _ := Parse(patch)
			if got, _, rejects := files[0].Reverse().applyTo(new); rejects != nil || got != old {
				t.Fatalf("seed %d, round %d: %s backwards gives %q, %v, want %q\n%s", seed, round, name, got, rejects, old, patch)
			}
		}
	}
}

func (f File) applyTo(text string) (string, []Applied, []Reject) { return f.Apply(text, 0) }

func TestDiffOfLargeTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var old, new strings.Builder
	for range 20_000 {
		old.WriteString(randomText(r, 1) + "\n")
		new.WriteString(randomText(r, 1) + "\n")
	}
	if got := apply(t, Diff("a", "a", old.String(), new.String()), old.String()); got != new.String() {
		t.Error("another text comes out")
	}
}

func TestApply(t *testing.T) {
	const old = "1\n2\n3\n4\n5\n6\n7\n8\n"
	const many = 1 << 20
	for _, tc := range []struct {
		name, old, patch string
		fuzz             int
		want, reason     string
	}{
		{"in its place", old, "@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n", 0, "1\n2\nx\n4\n5\n6\n7\n8\n", ""},
		{"moved", "0\n" + old, "@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n", 0, "0\n1\n2\nx\n4\n5\n6\n7\n8\n", ""},
		{"moved twice", "0\n" + old, "@@ -2,2 +2,2 @@\n 2\n-3\n+x\n 4\n@@ -7 +7 @@\n-7\n+y\n", 0, "", "counts after @@"},
		{"several hunks", "0\n" + old, "@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n@@ -7 +7 @@\n-7\n+y\n", 0, "0\n1\n2\nx\n4\n5\n6\ny\n8\n", ""},
		{"not there", old, "@@ -2,3 +2,3 @@\n 2\n-z\n+x\n 4\n", 0, "", "not in the file"},
		{"of several places the end, without context behind it", "q\na\nb\na\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+x\n", 0, "q\na\nb\na\nx\n", ""},
		{"several places in the middle", "q\na\nb\nc\na\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n", 0, "", "2 times elsewhere"},
		{"the named of several", "q\na\nb\nc\na\nb\nc\n", "@@ -5,3 +5,3 @@\n a\n-b\n+x\n c\n", 0, "q\na\nb\nc\na\nx\nc\n", ""},
		{"other context", "1\nx\n3\n4\n", "@@ -1,4 +1,4 @@\n 1\n 2\n-3\n+y\n 4\n", 0, "", "not in the file"},
		{"other context, fuzz too small", "1\nx\n3\n4\n", "@@ -1,4 +1,4 @@\n 1\n 2\n-3\n+y\n 4\n", 1, "", "not in the file"},
		{"other context, fuzz", "1\nx\n3\n4\n", "@@ -1,4 +1,4 @@\n 1\n 2\n-3\n+y\n 4\n", 2, "1\nx\ny\n4\n", ""},
		{"other white space", "1\n  2\n3\n", "@@ -1,3 +1,3 @@\n 1\n-    2\n+x\n 3\n", 0, "", "white space differs"},
		{"CRLF in the file", "1\r\n2\r\n3\r\n", "@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n", 0, "1\r\nx\r\n3\r\n", ""},
		{"mixed line ends", "1\r\n2\n3\r\n", "@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n", 0, "", "ends of the lines differ"},
		{"CRLF in both", "1\r\n2\r\n", "@@ -1,2 +1,2 @@\n 1\r\n-2\r\n+x\r\n", 0, "1\r\nx\r\n", ""},
		{"no newline at the end", "1\n2", "@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+x\n", 0, "1\nx\n", ""},
		{"no newline, unexpected", "1\n2", "@@ -1,2 +1,2 @@\n 1\n-2\n+x\n", 0, "", "ends of the lines differ"},
		{"the file is shorter", "1\n", "@@ -1,2 +1,2 @@\n 1\n-2\n+x\n", 0, "", "file ends"},
		{"an empty line of context without its space", "1\n\n2\n", "@@ -1,3 +1,3 @@\n 1\n\n-2\n+x\n", 0, "1\n\nx\n", ""},
		{"insertion without context", old, "@@ -2,0 +3 @@\n+x\n", 0, "1\n2\nx\n3\n4\n5\n6\n7\n8\n", ""},
		{"insertion without context behind the end", "1\n", "@@ -2,0 +3 @@\n+x\n", 0, "", "nothing but its place"},
		{"insertion without context behind a line without newline", "1\n2", "@@ -2,0 +3 @@\n+x\n", 0, "", "without a newline"},
		{"an addition without newline in the middle by fuzz", old, "@@ -3 +3,2 @@\n z\n+x\n\\ No newline at end of file\n", 1, "", "without a newline"},
		{"an addition without newline at the end", "1\n", "@@ -1 +1,2 @@\n 1\n+x\n\\ No newline at end of file\n", 0, "1\nx", ""},
		{"hunks in disorder", old, "@@ -6 +6 @@\n-6\n+x\n@@ -2 +2 @@\n-2\n+y\n", 0, "", "not in the file"},
		{"the last newline of the patch got lost", "1\n", "@@ -1 +1 @@\n-1\n+2", 0, "2\n", ""},
		{"lines that overlap", "q\na\nb\na\nb\na\nb\na\nz\n", "@@ -1,5 +1,5 @@\n a\n b\n-a\n+x\n b\n a\n", 0, "", "2 times elsewhere, as at lines 2 and 4"},
		{"lines that begin twice", "q\na\na\na\nb\nz\n", "@@ -1,3 +1,3 @@\n a\n-a\n+x\n b\n", 0, "q\na\na\nx\nb\nz\n", ""},
		// To compare all lines of a hunk at each line of the file would take hours.
		{"many equal lines, not there", strings.Repeat("a\n", 2*many), fmt.Sprintf("@@ -1,%d +1,%d @@\n%s-b\n a\n", many+2, many+1, strings.Repeat(" a\n", many)), 0, "", "not in the file"},
		{"many equal lines, several places", "b\n" + strings.Repeat("a\n", 2*many), fmt.Sprintf("@@ -%d,%d +1,%d @@\n-a\n%s", 2*many, many+1, many, strings.Repeat(" a\n", many)), 0, "", fmt.Sprint(many, " times elsewhere")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files, err := Parse("--- a\n+++ b\n" + tc.patch)
			if err != nil {
				if tc.reason == "" || !strings.Contains(err.Error(), tc.reason) {
					t.Errorf("Parse: %v", err)
				}
				return
			}
			got, _, rejects := files[0].Apply(tc.old, tc.fuzz)
			switch {
			case tc.reason == "" && (rejects != nil || got != tc.want):
				t.Errorf("Apply = %q, %+v, want %q", got, rejects, tc.want)
			case tc.reason != "" && (len(rejects) == 0 || !strings.Contains(rejects[0].Reason, tc.reason) || got != ""):
				t.Errorf("Apply = %q, %+v, want a reject with %q", got, rejects, tc.reason)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, patch, want string }{
		{"git", "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@ func\n-1\n+2\n", "modify a/x b/x 1"},
		{"new", "diff --git a/x b/x\nnew file mode 100755\nindex 0..2\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+2\n", "create  b/x 1 100755"},
		{"new and empty", "diff --git a/x b/x\nnew file mode 100644\nindex 0..e\n", "create  b/x 0 100644"},
		{"deleted", "diff --git a/x b/x\ndeleted file mode 100644\nindex 0..2\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-2\n", "delete a/x  1"},
		{"deleted and empty", "diff --git a/x y b/x y\ndeleted file mode 100644\n", "delete a/x y  0"},
		{"renamed", "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", "rename x y 0"},
		{"renamed and changed", "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\nindex 1..2 100644\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n", "rename x y 1"},
		{"copied", "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "copy x y 0"},
		{"another mode", "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "modify a/x b/x 0 100755"},
		{"quoted", "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nold mode 100644\nnew mode 100755\n", "modify a/ä b/ä 0 100755"},
		{"diff -u", "--- x\t2024-01-01 00:00:00 +0000\n+++ y z\t2024-01-01 00:00:00 +0000\n@@ -1 +1 @@\n-1\n+2\n", "modify x y z 1"},
		{"CRLF", "--- x\r\n+++ x\r\n@@ -1 +1 @@\r\n-1\r\n+2\r\n", "modify x x 1"},
		{"a mail", "From: me\nSubject: x\n\n---\n x | 2 +-\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n-- \n2.39\n", "modify a/x b/x 1"},
		{"several", "--- x\n+++ x\n@@ -1 +1 @@\n-1\n+2\n--- y\n+++ y\n@@ -1 +1 @@\n-1\n+2\n", "modify x x 1; modify y y 1"},
		{"a removed line with dashes", "--- x\n+++ x\n@@ -1,2 +1 @@\n--- a\n-b\n+++ c\n", "modify x x 1"},
		{"nothing", "", "error line 1: there is no diff"},
		{"no patch", "hello\n", "error line 1: there is no diff"},
		{"a hunk alone", "@@ -1 +1 @@\n-1\n+2\n", "error line 1: a hunk without"},
		{"no hunk", "--- x\n+++ x\n", "error line 3: no hunk"},
		{"too few lines", "--- x\n+++ x\n@@ -1,2 +1,2 @@\n-1\n+2\n", "error line 6: the patch ends in the middle"},
		{"too few lines before the next", "--- x\n+++ x\n@@ -1,2 +1,2 @@\n-1\n+2\n@@ -9 +9 @@\n-1\n+2\n", "error line 6: a line of a hunk"},
		{"too many lines", "--- x\n+++ x\n@@ -1 +1 @@\n-1\n+2\n+3\n", "error line 6: the hunk has more"},
		{"too many of one kind", "--- x\n+++ x\n@@ -1 +1,2 @@\n-1\n-2\n+2\n", "error line 5: the hunk has more"},
		{"bad numbers", "--- x\n+++ x\n@@ -1,x +1 @@\n", "error line 3: "},
		{"huge numbers", "--- x\n+++ x\n@@ -1,99999999999999999999 +1 @@\n", "error line 3: "},
		{"line 0", "--- x\n+++ x\n@@ -0,2 +1 @@\n", "error line 3: "},
		{"binary", "diff --git a/x b/x\nindex 1..2\nBinary files a/x and b/x differ\n", "error line 3: a binary diff"},
		{"binary patch", "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 0\n", "error line 3: a binary diff"},
		{"from nowhere to nowhere", "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-1\n+2\n", "error line 3: both"},
		{"no +++", "diff --git a/x b/x\n--- a/x\n@@ -1 +1 @@\n", "error line 3: the line +++"},
		{"a bad quote", "--- \"x\n+++ x\n@@ -1 +1 @@\n-1\n+2\n", "error line 1: "},
		{"an empty path", "--- \n+++ x\n@@ -1 +1 @@\n-1\n+2\n", "error line 1: "},
		{"paths that cannot be told apart", "diff --git a/x b/yy\nold mode 100644\nnew mode 100755\n", "error line 1: the paths"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files, err := Parse(tc.patch)
			var got []string
			for _, f := range files {
				s := strings.Join([]string{string(f.Action), f.Old, f.New, string('0' + rune(len(f.Hunks)))}, " ")
				if f.Mode != "" {
					s += " " + f.Mode
				}
				got = append(got, s)
			}
			if err != nil {
				got = []string{"error " + err.Error()}
			}
			if s := strings.Join(got, "; "); s != tc.want && (err == nil || !strings.HasPrefix(s, tc.want)) {
				t.Errorf("Parse = %s, want %s", s, tc.want)
			}
		})
	}
}

func FuzzParseAndApply(f *testing.F) {
	f.Add("--- a\n+++ b\n@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n", "1\n2\n3\n", 1)
	f.Add("diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +0,0 @@\n-1\n\\ No newline at end of file\n", "1", 0)
	f.Fuzz(func(t *testing.T, patch, text string, fuzz int) {
		files, err := Parse(patch)
		if err != nil {
			return
		}
		for _, file := range files {
			result, applied, rejects := file.Apply(text, fuzz%(MaxFuzz+1))
			if rejects == nil && len(applied) != len(file.Hunks) {
				t.Errorf("%d of %d hunks", len(applied), len(file.Hunks))
			}
			if rejects != nil && result != "" {
				t.Error("a rejected patch has a result")
			}
		}
	})
}
