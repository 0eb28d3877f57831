package git_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestDiffComparesWhatItIsAskedTo(t *testing.T) {
	b := newBench(t)
	first := b.repo()
	b.write("repo/gone", "x\n")
	b.write("repo/old name", "one\ntwo\nthree\n")
	second := b.commitAll("second")
	b.ok(os.Rename(filepath.Join(b.dir, "repo/old name"), filepath.Join(b.dir, "repo/new name")))
	b.ok(os.Remove(filepath.Join(b.dir, "repo/gone")))
	b.write("repo/bin", "\x00\x01")
	b.git("repo", "add", "-A")
	b.write("repo/README.md", "hello\nworld\n")
	type file struct {
		path, old, status string
		plus, minus       float64
	}
	tests := map[string]struct {
		in    input
		files []file
	}{
		"work tree":    {input{}, []file{{"README.md", "", "M", 1, 0}}},
		"staged":       {input{"staged": true}, []file{{"bin", "", "A", 0, 0}, {"gone", "", "D", 0, 1}, {"new name", "", "A", 3, 0}, {"old name", "", "D", 0, 3}}},
		"renames":      {input{"staged": true, "renames": true}, []file{{"bin", "", "A", 0, 0}, {"gone", "", "D", 0, 1}, {"new name", "old name", "R", 0, 0}}},
		"of HEAD":      {input{"from": "HEAD", "paths": []string{"README.md", "gone"}}, []file{{"README.md", "", "M", 1, 0}, {"gone", "", "D", 0, 1}}},
		"commits":      {input{"from": first, "to": second}, []file{{"gone", "", "A", 1, 0}, {"old name", "", "A", 3, 0}}},
		"backwards":    {input{"from": "HEAD", "to": "HEAD~1"}, []file{{"gone", "", "D", 0, 1}, {"old name", "", "D", 0, 3}}},
		"names only":   {input{"from": first, "to": "main", "format": "name-status"}, []file{{"gone", "", "A", 0, 0}, {"old name", "", "A", 0, 0}}},
		"nothing":      {input{"from": second, "to": second}, nil},
		"staged to it": {input{"staged": true, "from": first, "paths": []string{"gone"}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data := b.must("git.diff", test.in)
			var got []file
			var plus, minus float64
			for _, v := range data["files"].([]any) {
				f := v.(map[string]any)
				old, _ := f["old_path"].(string)
				if test.in["format"] == "name-status" { // nothing is counted, and nothing is said to be 0
					if _, counted := f["additions"]; counted {
						t.Errorf("name-status counts the lines of %v", f)
					}
					f["additions"], f["deletions"] = 0.0, 0.0
				}
				got = append(got, file{f["path"].(string), old, f["status"].(string), f["additions"].(float64), f["deletions"].(float64)})
				plus, minus = plus+f["additions"].(float64), minus+f["deletions"].(float64)
			}
			if !reflect.DeepEqual(got, test.files) {
				t.Errorf("git.diff %v lists %v, want %v", test.in, got, test.files)
			}
			totals := map[string]any{"files": float64(len(got)), "additions": plus, "deletions": minus}
			if test.in["format"] == "name-status" {
				totals = map[string]any{"files": float64(len(got))}
			}
			if !reflect.DeepEqual(data["totals"], totals) {
				t.Errorf("totals are %v, want %v", data["totals"], totals)
			}
			if isPatch := test.in["format"] == nil && len(got) > 0; (data["patch"] != "") != isPatch {
				t.Errorf("the patch is %q", data["patch"])
			}
		})
	}
	b.fails("git.diff", input{"to": "main"}, 2, "bad_input")
	b.fails("git.diff", input{"from": "nope"}, 3, "ref_not_found")
	b.fails("git.diff", input{"from": strings.Repeat("1", 40)}, 3, "ref_not_found")
	b.fails("git.diff", input{"context": -1}, 2, "bad_input")
	b.fails("git.diff", input{"format": "word"}, 2, "bad_input")
}

// Whatever git.diff prints, git.apply makes of the one side the other, and back.
func TestDiffAndApplyAreInverse(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.write("repo/tab\tname \"q\" é", "1\n2\n3\n")
	b.write("repo/bin", "\x00old")
	b.write("repo/sub/deep/file", strings.Repeat("line\n", 50))
	b.write("repo/no end", "a\nb")
	b.ok(os.Symlink("README.md", filepath.Join(b.dir, "repo/link")))
	from := b.commitAll("from")
	b.write("repo/tab\tname \"q\" é", "1\n2\n3\n4\n")
	b.write("repo/bin", "\x00new")
	b.write("repo/made", "")
	b.write("repo/no end", "a\nc")
	b.ok(os.Chmod(filepath.Join(b.dir, "repo/README.md"), 0o755), os.Remove(filepath.Join(b.dir, "repo/link")), os.Symlink("bin", filepath.Join(b.dir, "repo/link")))
	b.git("repo", "mv", "sub/deep/file", "sub/moved")
	to := b.commitAll("to")
	for _, renames := range []bool{false, true} {
		patch := b.must("git.diff", input{"from": from, "to": to, "binary": true, "renames": renames})["patch"]
		b.git("repo", "checkout", "-q", "--detach", from)
		if data := b.must("git.apply", input{"patch": patch, "check": true}); data["checked"] != true || b.git("repo", "status", "--porcelain") != "" {
			t.Errorf("git.apply with check = %v and changed something", data)
		}
		b.must("git.apply", input{"patch": patch})
		if got := b.git("repo", "diff", "--cached", "--stat", to); got != "" {
			t.Errorf("renames %v: the patch applied makes something else: %s", renames, got)
		}
		b.git("repo", "commit", "-q", "-m", "applied")
		b.must("git.apply", input{"patch": patch, "reverse": true})
		if got := b.git("repo", "diff", "--cached", "--stat", from); got != "" {
			t.Errorf("renames %v: the patch taken back makes something else: %s", renames, got)
		}
		b.git("repo", "checkout", "-q", "--force", "main")
	}
}

func TestLargePatchesGoToAFile(t *testing.T) {
	b := newBench(t)
	b.repo()
	big := strings.Repeat("0123456789abcdef\n", 30_000) // more than a line takes
	b.write("repo/a", big)
	b.write("repo/b", "small\n")
	b.git("repo", "add", "-A")
	o := b.call("git.diff", input{"staged": true})
	data := o.data(t)
	name, _ := data["patch_file"].(string)
	if data["patch"] != "" || !strings.HasPrefix(name, protocol.Dir+"/") || data["truncated"] != false || len(o.result.Warnings) > 0 {
		t.Fatalf("git.diff = %.300s", o.stdout)
	}
	if !strings.Contains(o.stdout, `"kind":"file","ref":"`+name) {
		t.Errorf("no ARTIFACT names the file: %.600s", o.stdout)
	}
	if want := b.git("repo", "diff", "--cached", "--full-index", "--no-renames") + "\n"; b.read(name) != want {
		t.Error("the file holds another patch than git's")
	}
	b.git("repo", "reset", "-q", "--hard")
	b.must("git.apply", input{"patch_file": name})
	if b.read("repo/a") != big {
		t.Error("the stored patch makes another file")
	}
	// A patch is cut after a file, or where not even one fits after a line.
	b.git("repo", "mv", "b", "0")
	data = b.must("git.diff", input{"staged": true, "max_bytes": 500})
	patch := data["patch"].(string)
	if data["truncated"] != true || !strings.HasPrefix(patch, "diff --git a/0 b/0\n") || strings.Count(patch, "diff --git") != 1 || !strings.HasSuffix(patch, "+small\n") {
		t.Errorf("cut after a file: %q", patch)
	}
	data = b.must("git.diff", input{"staged": true, "max_bytes": 500, "paths": []string{"a"}})
	if patch := data["patch"].(string); data["truncated"] != true || len(patch) < 450 || !strings.HasSuffix(patch, "+0123456789abcdef\n") {
		t.Errorf("cut after a line: %q", patch)
	}
	b.write("repo/latin", "caf\xe9\n")
	b.git("repo", "add", "-A")
	data = b.must("git.diff", input{"staged": true, "paths": []string{"latin"}})
	if name := data["patch_file"].(string); !strings.Contains(b.read(name), "+caf\xe9\n") {
		t.Error("a patch that is no UTF-8 lost its bytes")
	}
}

func TestLogPagesAndFilters(t *testing.T) {
	b := newBench(t)
	b.repo()
	var ids []string
	for _, message := range []string{"second", "Third: fix\n\nThe body\nhas lines.\n\nCo-authored-by: Bob <bob@example.com>", "fourth\nsame paragraph"} {
		b.write("repo/f", message)
		ids = append(ids, b.commitAll(message))
	}
	b.git("repo", "tag", "-a", "-m", "x", "v1", ids[0])
	b.git("repo", "update-ref", "refs/remotes/origin/main", ids[0])
	subjects := func(in input) string {
		t.Helper()
		var all []string
		for _, c := range b.must("git.log", in)["commits"].([]any) {
			all = append(all, at(t, c, "subject").(string))
		}
		return strings.Join(all, "|")
	}
	for _, test := range []struct {
		in   input
		want string
	}{
		{input{}, "fourth same paragraph|Third: fix|second|first"},
		{input{"max_count": 2}, "fourth same paragraph|Third: fix"},
		{input{"skip": 3}, "first"},
		{input{"skip": 9}, ""},
		{input{"ref": "v1"}, "second|first"},
		{input{"range": "v1..main"}, "fourth same paragraph|Third: fix"},
		{input{"range": "v1..."}, "fourth same paragraph|Third: fix"},
		{input{"range": "..v1"}, ""},
		{input{"paths": []string{"README.md"}}, "first"},
		{input{"paths": []string{"nope"}}, ""},
		{input{"paths": []string{":(top)f"}}, ""},
		{input{"grep": "BODY"}, "Third: fix"},
		{input{"grep": "b.dy"}, ""},
		{input{"author": "ada@EXAMPLE"}, "fourth same paragraph|Third: fix|second|first"},
		{input{"author": "bob"}, ""},
		{input{"since": "2026-01-31T12:00:01Z"}, ""},
		{input{"since": "2026-01-31T13:00:00+01:00", "until": "2026-01-31T12:00:00Z"}, "fourth same paragraph|Third: fix|second|first"},
	} {
		if got := subjects(test.in); got != test.want {
			t.Errorf("git.log %v = %s, want %s", test.in, got, test.want)
		}
	}
	data := b.must("git.log", input{"ref": "HEAD~1", "max_count": 1, "format": "full", "stats": true})
	want := map[string]any{
		"commit": ids[1], "tree": b.git("repo", "rev-parse", "HEAD~1^{tree}"), "parents": []any{ids[0]}, "subject": "Third: fix",
		"body": "The body\nhas lines.\n\nCo-authored-by: Bob <bob@example.com>", "refs": []any{},
		"author":    map[string]any{"name": "Ada", "email": "ada@example.com", "date": fixedDate},
		"committer": map[string]any{"name": "Ada", "email": "ada@example.com", "date": fixedDate},
		"stats":     map[string]any{"files": 1.0, "additions": 6.0, "deletions": 1.0},
	}
	if got := at(t, data, "commits", 0); !reflect.DeepEqual(got, want) {
		t.Errorf("git.log = %v, want %v", got, want)
	}
	for i, want := range [][]any{{"HEAD", "refs/heads/main"}, {}, {"refs/remotes/origin/main", "refs/tags/v1"}, {}} {
		if got := at(t, b.must("git.log", input{}), "commits", i, "refs"); !reflect.DeepEqual(got, want) {
			t.Errorf("refs of commit %d are %v, want %v", i, got, want)
		}
	}
	// A page follows the one before although the branch has moved on.
	page := b.must("git.log", input{"max_count": 2})
	b.write("repo/f", "later")
	b.commitAll("later")
	page = b.must("git.log", input{"max_count": 1, "cursor": page["next_cursor"]})
	if at(t, page, "commits", 0, "subject") != "second" {
		t.Errorf("the second page is %v", page)
	}
	page = b.must("git.log", input{"max_count": 1, "cursor": page["next_cursor"]})
	if at(t, page, "commits", 0, "subject") != "first" || page["next_cursor"] != "" {
		t.Errorf("the last page is %v", page)
	}
	for _, in := range []input{{"cursor": "x"}, {"cursor": "1"}, {"max_count": -1}, {"max_count": 1001}, {"since": "yesterday"}, {"until": "1969-01-01T00:00:00Z"},
		{"ref": "a", "range": "a..b"}, {"range": "main"}, {"range": ".."}, {"format": "oneline"}, {"grep": "a\nb"}} {
		b.fails("git.log", in, 2, "bad_input")
	}
	b.fails("git.log", input{"ref": "nope"}, 3, "ref_not_found")
	b.fails("git.log", input{"range": "main..nope"}, 3, "ref_not_found")
}

func TestStatsOfMergesAreAgainstTheFirstParent(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.git("repo", "checkout", "-q", "-b", "side")
	b.write("repo/side", "1\n2\n")
	b.commitAll("side")
	b.git("repo", "checkout", "-q", "main")
	b.git("repo", "merge", "-q", "--no-ff", "-m", "merge", "side")
	b.git("repo", "checkout", "-q", "-b", "other", "main~1")
	b.write("repo/other", "x")
	b.commitAll("other")
	b.git("repo", "checkout", "-q", "main")
	b.git("repo", "merge", "-q", "-s", "ours", "-m", "ours", "other")
	commits := b.must("git.log", input{"stats": true})["commits"].([]any)
	got := map[string]any{}
	for _, c := range commits {
		got[at(t, c, "subject").(string)] = at(t, c, "stats", "additions")
	}
	if want := (map[string]any{"ours": 0.0, "merge": 2.0, "side": 2.0, "other": 1.0, "first": 1.0}); !reflect.DeepEqual(got, want) {
		t.Errorf("additions are %v, want %v", got, want)
	}
	if data := b.must("git.show", input{"ref": "main~1"}); at(t, data, "totals", "additions") != 2.0 || len(at(t, data, "commit", "parents").([]any)) != 2 {
		t.Errorf("git.show of a merge = %v", data)
	}
	if firsts := b.must("git.log", input{"first_parent": true})["commits"].([]any); len(firsts) != 3 {
		t.Errorf("by first parents there are %d commits, want 3", len(firsts))
	}
}

func TestShow(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.write("repo/sub/text", "grün\n")
	b.write("repo/sub/bin", "\x00\xff")
	b.write("repo/empty", "")
	head := b.commitAll("second")
	b.git("repo", "tag", "-a", "-m", "x", "v1")
	for _, ref := range []string{"HEAD", "v1", "main", head[:10], "main^0"} {
		data := b.must("git.show", input{"ref": ref})
		if data["type"] != "commit" || data["id"] != head || at(t, data, "commit", "subject") != "second" || len(data["files"].([]any)) != 3 ||
			!strings.Contains(data["patch"].(string), "+grün\n") {
			t.Errorf("git.show %s = %v", ref, data)
		}
	}
	for _, in := range []input{{"ref": "HEAD:sub/text"}, {"path": "sub/text"}, {"ref": "v1", "path": "sub/text"}} {
		data := b.must("git.show", in)
		if data["type"] != "blob" || data["content"] != "grün\n" || data["encoding"] != "utf-8" || data["size"] != 6.0 || data["path"] != "sub/text" {
			t.Errorf("git.show %v = %v", in, data)
		}
	}
	data := b.must("git.show", input{"path": "sub/text", "max_bytes": 3})
	if data["content"] != "gr" || data["truncated"] != true || data["size"] != 6.0 {
		t.Errorf("cut in a letter: %v", data)
	}
	data = b.must("git.show", input{"path": "sub/bin"})
	if raw, err := base64.StdEncoding.DecodeString(data["content"].(string)); err != nil || string(raw) != "\x00\xff" || data["encoding"] != "base64" {
		t.Errorf("a binary file: %v", data)
	}
	if data = b.must("git.show", input{"path": "empty"}); data["content"] != "" || data["size"] != 0.0 {
		t.Errorf("an empty file: %v", data)
	}
	want := []any{
		map[string]any{"path": "sub/bin", "mode": "100644", "type": "blob", "id": b.git("repo", "rev-parse", "HEAD:sub/bin")},
		map[string]any{"path": "sub/text", "mode": "100644", "type": "blob", "id": b.git("repo", "rev-parse", "HEAD:sub/text")},
	}
	if data = b.must("git.show", input{"path": "sub/"}); data["type"] != "tree" || !reflect.DeepEqual(data["entries"], want) {
		t.Errorf("a folder: %v, want %v", data, want)
	}
	if data = b.must("git.show", input{"ref": "HEAD:"}); data["type"] != "tree" || len(data["entries"].([]any)) != 3 || at(t, data, "entries", 2, "mode") != "040000" {
		t.Errorf("the top folder: %v", data)
	}
	b.fails("git.show", input{"path": "sub/bin", "encoding": "utf-8"}, 1, "not_utf8")
	b.fails("git.show", input{"path": "nope"}, 3, "ref_not_found")
	b.fails("git.show", input{"ref": "nope"}, 3, "ref_not_found")
	b.fails("git.show", input{"ref": "nope:README.md"}, 3, "ref_not_found")
	b.fails("git.show", input{"path": "../x"}, 7, "unsafe_path")
	b.fails("git.show", input{"path": "a\nHEAD"}, 7, "unsafe_path")
}

func TestMergeBaseAndRevParse(t *testing.T) {
	b := newBench(t)
	first := b.repo()
	b.git("repo", "branch", "side")
	b.write("repo/f", "main")
	second := b.commitAll("second")
	b.git("repo", "tag", "-a", "-m", "x", "v1")
	b.git("repo", "checkout", "-q", "side")
	b.write("repo/f", "side")
	third := b.commitAll("third")
	b.git("repo", "checkout", "-q", "--orphan", "alone")
	b.git("repo", "commit", "-q", "-m", "alone")
	for _, test := range []struct {
		commits  []string
		base     string
		ancestor bool
	}{
		{[]string{"main", "side"}, first, false}, {[]string{first, "side"}, first, true}, {[]string{"side", first}, first, false},
		{[]string{"v1", "main"}, second, true}, {[]string{"main", "alone"}, "", false}, {[]string{"main", "side", "v1"}, first, false},
	} {
		data := b.must("git.merge_base", input{"commits": test.commits})
		if data["base"] != test.base || data["is_ancestor"] != test.ancestor {
			t.Errorf("git.merge_base %v = %v, want %s, %v", test.commits, data, test.base, test.ancestor)
		}
	}
	b.fails("git.merge_base", input{"commits": []string{"main"}}, 2, "bad_input")
	b.fails("git.merge_base", input{"commits": []string{"main", "nope"}}, 3, "ref_not_found")
	b.fails("git.merge_base", input{"commits": []string{"main", "side", "nope"}}, 3, "ref_not_found")

	b.git("repo", "checkout", "-q", "main")
	tag, blob := b.git("repo", "rev-parse", "v1"), b.git("repo", "rev-parse", "HEAD:f")
	data := b.must("git.rev_parse", input{"refs": []string{"HEAD", "side", "v1", second[:8], "main~1", "main^{tree}", blob, "@"}})
	object := func(revision, id, kind, commit, ref string) map[string]any {
		return map[string]any{"revision": revision, "id": id, "type": kind, "commit": commit, "ref": ref}
	}
	want := []any{
		object("HEAD", second, "commit", second, "refs/heads/main"), object("side", third, "commit", third, "refs/heads/side"),
		object("v1", tag, "tag", second, "refs/tags/v1"), object(second[:8], second, "commit", second, ""), object("main~1", first, "commit", first, ""),
		object("main^{tree}", b.git("repo", "rev-parse", "main^{tree}"), "tree", "", ""), object(blob, blob, "blob", "", ""),
		object("@", second, "commit", second, "refs/heads/main"),
	}
	if !reflect.DeepEqual(data["resolved"], want) {
		t.Errorf("git.rev_parse = %v\nwant %v", data["resolved"], want)
	}
	if data["top"] != "repo" || data["git_dir"] != "repo/.git" || data["branch"] != "main" || data["head"] != second || data["detached"] != false {
		t.Errorf("git.rev_parse = %v", data)
	}
	b.git("repo", "checkout", "-q", "--detach", "side")
	if data = b.must("git.rev_parse", input{}); data["branch"] != "" || data["head"] != third || data["detached"] != true {
		t.Errorf("git.rev_parse of a detached HEAD = %v", data)
	}
	b.fails("git.rev_parse", input{"refs": []string{"nope"}}, 3, "ref_not_found")
}

func TestAnEmptyRepositoryHasNoHistory(t *testing.T) {
	b := newBench(t)
	b.write("repo/a", "x")
	b.git("repo", "init", "-q", "-b", "trunk")
	if data := b.must("git.log", input{}); len(data["commits"].([]any)) != 0 {
		t.Errorf("git.log = %v", data)
	}
	if data := b.must("git.rev_parse", input{}); data["branch"] != "trunk" || data["head"] != "" || data["detached"] != false {
		t.Errorf("git.rev_parse = %v", data)
	}
	b.git("repo", "add", "-A")
	if data := b.must("git.diff", input{"staged": true}); at(t, data, "files", 0, "status") != "A" {
		t.Errorf("git.diff = %v", data)
	}
	b.fails("git.log", input{"ref": "HEAD"}, 3, "ref_not_found")
	b.fails("git.show", input{}, 3, "ref_not_found")
	b.fails("git.diff", input{"from": "HEAD"}, 3, "ref_not_found")
	b.fails("git.stash", input{}, 1, "no_commits")
}

// A workspace that is itself the repository needs no repo in the input; what the runtime keeps there is not a change.
func TestTheWorkspaceIsTheRepository(t *testing.T) {
	b := newBench(t)
	b.repo()
	entries, err := os.ReadDir(filepath.Join(b.dir, "repo"))
	b.ok(err)
	for _, e := range entries {
		b.ok(os.Rename(filepath.Join(b.dir, "repo", e.Name()), filepath.Join(b.dir, e.Name())))
	}
	b.ok(os.Remove(filepath.Join(b.dir, "repo")))
	b.write("new", "x\n")
	status := b.must("git.status", input{})
	if status["repo"] != "." {
		t.Errorf("git.status works on %v, want the workspace", status["repo"])
	}
	b.must("git.add", input{"paths": []string{"new"}})
	b.must("git.commit", input{"message": "m", "author": map[string]string{"name": "A", "email": "a@example.com"}})
	if got := b.git(".", "show", "--name-only", "--format=%s"); got != "m\n\nnew" {
		t.Errorf("the commit is %q", got)
	}
}
