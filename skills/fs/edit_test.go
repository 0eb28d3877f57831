package fs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	for _, tc := range []struct {
		name, before, edits string
		exit                int
		code                string
		want, hint          string // want: "" for as before
	}{
		{"one", "a b c\n", `[{"old":"b","new":"x"}]`, 0, "", "a x c\n", ""},
		{"none", "a\n", `[{"old":"b","new":"x"}]`, 1, "no_match", "", "fs.read"},
		{"other white space", "a\n\tb  c\nd\n", `[{"old":"  b c\nd\n","new":"x"}]`, 1, "no_match", "", "at line 2"},
		{"other white space, at the end", "a\n b", `[{"old":"b ","new":"x"}]`, 1, "no_match", "", "at line 2"},
		{"other white space, part of a line", "a\nb c\n", `[{"old":"b  ","new":"x"}]`, 1, "no_match", "", "with all its white space"},
		{"several", "b b\nb\n", `[{"old":"b","new":"x"}]`, 1, "ambiguous", "", `"all":true`},
		{"several, all", "b b\nb\n", `[{"old":"b","new":"x","all":true}]`, 0, "", "x x\nx\n", ""},
		{"several, counted", "b b\nb\n", `[{"old":"b","new":"x","count":3}]`, 0, "", "x x\nx\n", ""},
		{"several, counted wrongly", "b b\nb\n", `[{"old":"b","new":"x","count":2}]`, 1, "ambiguous", "", ""},
		{"all of none", "a\n", `[{"old":"b","new":"x","all":true}]`, 1, "no_match", "", ""},
		{"one after the other", "a\n", `[{"old":"a","new":"b"},{"old":"b","new":"c"}]`, 0, "", "c\n", ""},
		{"all or nothing", "a b\n", `[{"old":"a","new":"x"},{"old":"q","new":"y"}]`, 1, "no_match", "", ""},
		{"remove", "a b\n", `[{"old":" b","new":""}]`, 0, "", "a\n", ""},
		{"over lines", "a\nb\nc\n", `[{"old":"a\nb","new":"x"}]`, 0, "", "x\nc\n", ""},
		{"CRLF stays", "a\r\nb\r\nc\r\n", `[{"old":"a\nb","new":"x\ny"}]`, 0, "", "x\r\ny\r\nc\r\n", ""},
		{"CRLF can be replaced", "a\r\nb\r\n", `[{"old":"a\r\n","new":"x\n"}]`, 0, "", "x\nb\r\n", ""},
		{"mixed ends stay", "a\r\nb\nc\n", `[{"old":"b\nc","new":"x\ny"}]`, 0, "", "a\r\nx\ny\n", ""},
		{"a byte order mark stays", "\uFEFFa\n", `[{"old":"a","new":"b"}]`, 0, "", "\uFEFFb\n", ""},
		{"a missing newline stays", "a\nb", `[{"old":"b","new":"c"}]`, 0, "", "a\nc", ""},
		{"bytes that are no text stay", "a\xff\x00b\n", `[{"old":"b","new":"c"}]`, 0, "", "a\xff\x00c\n", ""},
		{"nothing old", "a\n", `[{"old":"","new":"b"}]`, 2, "bad_input", "", ""},
		{"nothing new", "a\n", `[{"old":"a","new":"a"}]`, 2, "bad_input", "", ""},
		{"no edits", "a\n", `[]`, 2, "bad_input", "", ""},
		{"count and all", "a\n", `[{"old":"a","new":"b","count":1,"all":true}]`, 2, "bad_input", "", ""},
		{"a typo in an edit", "a\n", `[{"old":"a","new":"b","al":true}]`, 2, "bad_input", "", ""},
		{"another case in an edit", "a\n", `[{"old":"a","Old":"x","new":"b"}]`, 2, "bad_input", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSprite(t, "f", tc.before)
			if err := os.Chmod(filepath.Join(s.dir, "f"), 0o755); err != nil {
				t.Fatal(err)
			}
			input := `{"path":"f","edits":` + tc.edits + `}`
			want := tc.want
			if tc.exit == 0 {
				if got := s.must("fs.edit", input); got["sha256"] != sum(tc.want) || got["changed"] != true {
					t.Errorf("fs.edit = %v", got)
				}
			} else {
				want = tc.before
				if fault := s.fails("fs.edit", input, tc.exit, tc.code); !strings.Contains(fault.Hint, tc.hint) {
					t.Errorf("the hint is %q, want %q in it", fault.Hint, tc.hint)
				}
			}
			if got := s.read("f"); got != want {
				t.Errorf("the file holds %q, want %q", got, want)
			}
			if info, err := os.Stat(filepath.Join(s.dir, "f")); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("the mode is %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestEditOfManyEqualLines checks that the search for the nearest match does not compare each line with each: that takes hours.
func TestEditOfManyEqualLines(t *testing.T) {
	const lines = 1 << 20
	s := newSprite(t, "f", strings.Repeat("a\n", 2*lines))
	s.fails("fs.edit", `{"path":"f","edits":[{"old":"`+strings.Repeat(`a\n`, lines)+`b","new":"x"}]}`, 1, "no_match")
}

func TestEditTellsWhatItDid(t *testing.T) {
	s := newSprite(t, "f", "one\nx\ntwo\nx\nthree\n")
	input := object{"path": "f", "edits": []object{{"old": "x\n", "new": "y\nz\n", "all": true}, {"old": "three", "new": "3"}}, "dry_run": true}
	got := s.must("fs.edit", input)
	const diff = "--- a/f\n+++ b/f\n@@ -1,5 +1,7 @@\n one\n-x\n+y\n+z\n two\n-x\n-three\n+y\n+z\n+3\n"
	if got["diff"] != diff || got["changed"] != false || s.read("f") != "one\nx\ntwo\nx\nthree\n" {
		t.Errorf("fs.edit = %v", got)
	}
	if e := quote(got["edits"]); e != `[{"lines":[2,5],"replacements":2},{"lines":[7],"replacements":1}]` {
		t.Errorf("the edits are %s", e)
	}
	input["dry_run"], input["expect_sha256"] = false, sum("other")
	s.fails("fs.edit", input, 1, "changed")
	input["expect_sha256"] = sum("one\nx\ntwo\nx\nthree\n")
	if got := s.must("fs.edit", input); got["diff"] != nil || s.read("f") != "one\ny\nz\ntwo\ny\nz\n3\n" {
		t.Errorf("fs.edit = %v, %q", got, s.read("f"))
	}
	// The diff of a dry run is a patch.
	s.write("f", "one\nx\ntwo\nx\nthree\n")
	s.must("fs.patch", object{"patch": diff})
	if s.read("f") != "one\ny\nz\ntwo\ny\nz\n3\n" {
		t.Errorf("patched: %q", s.read("f"))
	}
	s.fails("fs.edit", `{"path":"none","edits":[{"old":"a","new":"b"}]}`, 3, "not_found")
	s.fails("fs.edit", `{"path":".","edits":[{"old":"a","new":"b"}]}`, 1, "is_directory")
}

func TestPatch(t *testing.T) {
	modify := func(name string) string {
		return "diff --git a/" + name + " b/" + name + "\n--- a/" + name + "\n+++ b/" + name + "\n@@ -1,2 +1,2 @@\n 1\n-2\n+x\n"
	}
	const create = "diff --git a/new/n b/new/n\nnew file mode 100755\n--- /dev/null\n+++ b/new/n\n@@ -0,0 +1 @@\n+n\n"
	const remove = "diff --git a/d/b b/d/b\ndeleted file mode 100644\n--- a/d/b\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n"
	const rename = "diff --git a/a b/z/a\nsimilarity index 50%\nrename from a\nrename to z/a\n--- a/a\n+++ b/z/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+x\n"
	const duplicate = "diff --git a/a b/c\nsimilarity index 100%\ncopy from a\ncopy to c\n"
	const before = "a=1\n2\n d/ d/b=1\n2\n"
	for _, tc := range []struct {
		name  string
		input object
		exit  int
		code  string
		want  string // "" for as before
		part  string // of the error
	}{
		{"modify", object{"patch": modify("a")}, 0, "", "a=1\nx\n d/ d/b=1\n2\n", ""},
		{"several", object{"patch": modify("a") + create + remove}, 0, "", "a=1\nx\n d/ new/ new/n=n\n", ""},
		{"rename", object{"patch": rename}, 0, "", "d/ d/b=1\n2\n z/ z/a=1\nx\n", ""},
		{"copy", object{"patch": duplicate}, 0, "", "a=1\n2\n c=1\n2\n d/ d/b=1\n2\n", ""},
		{"copy of a file that is modified", object{"patch": modify("a") + duplicate}, 0, "", "a=1\nx\n c=1\n2\n d/ d/b=1\n2\n", ""},
		{"changed copy of a file that is modified", object{"patch": modify("a") + duplicate + "--- a/a\n+++ b/c\n@@ -1,2 +1,2 @@\n 1\n-2\n+y\n"}, 0, "", "a=1\nx\n c=1\ny\n d/ d/b=1\n2\n", ""},
		{"copy of the result of another patch", object{"patch": modify("a") + duplicate + "--- a/a\n+++ b/c\n@@ -1,2 +1,2 @@\n 1\n-x\n+y\n"}, 0, "", "a=1\nx\n c=1\ny\n d/ d/b=1\n2\n", ""},
		{"copy backwards", object{"patch": strings.ReplaceAll(duplicate, "to c", "to d/b"), "reverse": true}, 0, "", "a=1\n2\n d/\n", ""},
		{"changed copy backwards", object{"patch": strings.ReplaceAll(duplicate, "to c", "to d/b") + "--- a/a\n+++ b/d/b\n@@ -1,2 +1,2 @@\n 1\n-x\n+2\n", "reverse": true}, 0, "", "a=1\n2\n d/\n", ""},
		{"one after the other", object{"patch": duplicate + modify("c") + remove}, 0, "", "a=1\n2\n c=1\nx\n d/\n", ""},
		{"in a folder", object{"patch": modify("b"), "path": "d"}, 0, "", "a=1\n2\n d/ d/b=1\nx\n", ""},
		{"more parts off", object{"patch": modify("x/y/a"), "strip": 3}, 0, "", "a=1\nx\n d/ d/b=1\n2\n", ""},
		{"dry run", object{"patch": modify("a") + create, "dry_run": true}, 0, "", "", ""},
		{"backwards", object{"patch": "--- a\n+++ a\n@@ -1,2 +1,2 @@\n 1\n-x\n+2\n", "reverse": true}, 0, "", "a=1\nx\n d/ d/b=1\n2\n", ""},
		{"another name before", object{"patch": "--- a.orig\n+++ a\n@@ -1,2 +1,2 @@\n 1\n-2\n+x\n"}, 0, "", "a=1\nx\n d/ d/b=1\n2\n", ""},
		{"another name after", object{"patch": "--- a\n+++ a.new\n@@ -1,2 +1,2 @@\n 1\n-2\n+x\n"}, 0, "", "a=1\nx\n d/ d/b=1\n2\n", ""},
		{"as expected", object{"patch": modify("a"), "expect_sha256": object{"a": sum("1\n2\n"), "new": "absent"}}, 0, "", "a=1\nx\n d/ d/b=1\n2\n", ""},
		{"not as expected", object{"patch": modify("a"), "expect_sha256": object{"d/b": sum("1")}}, 1, "changed", "", ""},
		{"one of several does not apply", object{"patch": modify("a") + create + modify("d/b") + modify("d/b")}, 1, "rejected", "", "d/b, hunk @@ -1,2 +1,2 @@"},
		{"not there", object{"patch": modify("nope")}, 1, "rejected", "", "not there"},
		{"there already", object{"patch": strings.ReplaceAll(create, "new/n", "a")}, 1, "rejected", "", "exists already"},
		{"rename over a file", object{"patch": strings.ReplaceAll(rename, "z/a", "d/b")}, 1, "rejected", "", "exists already"},
		{"delete too little", object{"patch": "--- a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"}, 1, "rejected", "", "does not remove"},
		{"leaves the workspace", object{"patch": modify("../../x")}, 7, "unsafe_path", "", "leads out"},
		{"leaves the folder", object{"patch": modify("../a"), "path": "d"}, 7, "unsafe_path", "", "leads out"},
		{"absolute", object{"patch": "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n 1\n-2\n+x\n"}, 7, "unsafe_path", "", "leads out"},
		{"renames out", object{"patch": strings.ReplaceAll(rename, "z/a", "../z")}, 7, "unsafe_path", "", "leads out"},
		{"writes to the runtime", object{"patch": strings.ReplaceAll(create, "new/n", ".lattice/n")}, 7, "reserved_path", "", ""},
		{"plants a hook", object{"patch": strings.ReplaceAll(create, "new/n", "d/.git/hooks/pre-commit")}, 7, "git_internals", "", ""},
		{"makes a symlink", object{"patch": strings.ReplaceAll(create, "100755", "120000")}, 8, "special_mode", "", ""},
		{"binary", object{"patch": "diff --git a/a b/a\nGIT binary patch\nliteral 0\n"}, 8, "binary_patch", "", ""},
		{"no patch", object{"patch": "hello"}, 2, "bad_input", "", "no diff"},
		{"nothing left of a path", object{"patch": modify("a"), "strip": 5}, 2, "bad_input", "", ""},
		{"too much fuzz", object{"patch": modify("a"), "fuzz": 4}, 2, "bad_input", "", ""},
		{"a folder", object{"patch": modify("d")}, 1, "is_directory", "", ""},
		{"no such folder", object{"patch": modify("a"), "path": "x"}, 3, "not_found", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSprite(t, "a", "1\n2\n", "d/b", "1\n2\n")
			want := tc.want
			if want == "" {
				want = before
			}
			if tc.exit == 0 {
				s.must("fs.patch", tc.input)
			} else if fault := s.fails("fs.patch", tc.input, tc.exit, tc.code); !strings.Contains(fault.Message, tc.part) {
				t.Errorf("it says %q, want %q in it", fault.Message, tc.part)
			}
			if got := s.tree(); strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("the tree is %q, want %q", got, want)
			}
		})
	}
	s := newSprite(t)
	s.must("fs.patch", object{"patch": create})
	if info, err := os.Stat(filepath.Join(s.dir, "new/n")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

// TestPatchIsBounded checks that copies count towards the size of a patch's files.
func TestPatchIsBounded(t *testing.T) {
	t.Parallel()
	s := newSprite(t, "big", strings.Repeat("x", 15<<20))
	copies, renames := "", ""
	for i := range 8 {
		from, to := "big", fmt.Sprint("big", i)
		copies += "diff --git a/" + from + " b/" + to + "\nsimilarity index 100%\ncopy from " + from + "\ncopy to " + to + "\n"
		if i > 0 {
			from = fmt.Sprint("big", i-1)
		}
		renames += "diff --git a/" + from + " b/" + to + "\nsimilarity index 100%\nrename from " + from + "\nrename to " + to + "\n"
	}
	s.fails("fs.patch", object{"patch": copies, "dry_run": true}, 9, "too_large")
	s.must("fs.patch", object{"patch": renames, "dry_run": true})
}

func TestPatchNamesEachReject(t *testing.T) {
	s := newSprite(t, "a", "1\n2\n3\n", "b", "1\n")
	fault := s.fails("fs.patch", object{"patch": "--- a\n+++ a\n@@ -1,3 +1,3 @@\n 1\n-two\n+x\n 3\n--- b\n+++ b\n@@ -1 +1 @@\n-one\n+x\n--- c\n+++ c\n@@ -1 +1 @@\n-1\n+2\n"}, 1, "rejected")
	want := `{"rejects":[{"path":"a","hunk":1,"header":"@@ -1,3 +1,3 @@","patch_line":3,"reason":"its lines are not in the file","line":2,"expected":"two\n","found":"2\n"},` +
		`{"path":"b","hunk":1,"header":"@@ -1 +1 @@","patch_line":10,"reason":"its lines are not in the file","line":1,"expected":"one\n","found":"1\n"},` +
		`{"path":"c","reason":"it is not there"}]}`
	if string(fault.Details) != want {
		t.Errorf("details = %s, want %s", fault.Details, want)
	}
}

// What git makes of the change from one commit to the next, with renames, modes and strange names, fs.patch makes, too,
// and takes back.
func TestPatchOfGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("there is no git: %v", err)
	}
	s := newSprite(t, "r/keep", strings.Repeat("line\n", 30), "r/renamed", strings.Repeat("other\n", 30), "r/gone", "1\n2\n3\n", "r/s p a c e", "a\n", "r/ä", "a\n", "r/run", "x\n", "r/empty", "")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = filepath.Join(s.dir, "r")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "one")
	s.write("r/keep", strings.Repeat("line\n", 10)+"new\n"+strings.Repeat("line\n", 18)+"end")
	git("mv", "renamed", "sub-dir")
	git("rm", "-q", "gone")
	s.write("r/sub-dir", strings.Repeat("other\n", 29)+"last\n")
	s.write("r/s p a c e", "b\n")
	s.write("r/ä", "b\n")
	s.write("r/new/deep/file", "hello\n")
	s.write("r/new/empty", "")
	if err := os.Chmod(filepath.Join(s.dir, "r/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	patch := git("diff", "--cached", "-M")
	git("commit", "-qm", "two")
	after := git("ls-tree", "-r", "HEAD")
	git("checkout", "-q", "HEAD~")
	git("add", "-A")
	before := git("ls-files", "-s")

	s.must("fs.patch", object{"patch": patch, "path": "r"})
	git("add", "-A")
	if got := git("ls-tree", "-r", strings.TrimSpace(git("write-tree"))); got != after {
		t.Errorf("patched:\n%s\nwant:\n%s", got, after)
	}
	if got := git("ls-files", "-s"); got == before {
		t.Error("nothing happened")
	}
	s.must("fs.patch", object{"patch": patch, "path": "r", "reverse": true})
	git("add", "-A")
	if got := git("ls-files", "-s"); got != before {
		t.Errorf("patched backwards:\n%s\nwant:\n%s", got, before)
	}
}
