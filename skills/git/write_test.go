package git_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestApplyRejectsWithReasons(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.write("repo/a", strings.Repeat("line\n", 5)+"old\n"+strings.Repeat("line\n", 5))
	b.write("repo/b", "old\n")
	b.commitAll("second")
	const good = "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-old\n+new\n"
	const bad = "--- a/a\n+++ b/a\n@@ -1,4 +1,4 @@\n-line\n+LINE\n line\n line\n line\n@@ -6,3 +6,3 @@\n-other\n+new\n line\n line\n"
	const gone = "diff --git a/nope b/nope\n--- a/nope\n+++ b/nope\n@@ -1 +1 @@\n-x\n+y\n"
	clean := b.git("repo", "write-tree")

	fault := b.fails("git.apply", input{"patch": good + bad + gone}, 1, "patch_failed")
	want := `{"rejected":[{"path":"a","hunk":2,"reason":"patch does not apply"},{"path":"nope","hunk":0,"reason":"does not exist in index"}]}`
	if string(fault.Details) != want {
		t.Errorf("details are %s, want %s", fault.Details, want)
	}
	if b.read("repo/b") != "old\n" || b.git("repo", "write-tree") != clean {
		t.Error("a rejected patch changed something")
	}
	data := b.must("git.apply", input{"patch": good + bad + gone, "atomic": false})
	if got := at(t, data, "applied"); !reflect.DeepEqual(got, []any{map[string]any{"path": "b", "status": "M"}}) || len(data["rejected"].([]any)) != 2 {
		t.Errorf("git.apply = %v", data)
	}
	if b.read("repo/b") != "new\n" || !strings.Contains(b.read("repo/a"), "old\n") || b.git("repo", "status", "--porcelain") != "M  b" {
		t.Error("what applies was not applied alone")
	}
	b.fails("git.apply", input{"patch": good}, 1, "patch_failed") // applied already
	b.must("git.apply", input{"patch": good, "reverse": true})
	// Work that is not staged is in the way of the index, and left alone.
	b.write("repo/b", "old\nmine\n")
	fault = b.fails("git.apply", input{"patch": good}, 1, "patch_failed")
	if !strings.Contains(string(fault.Details), "does not match index") || !strings.Contains(fault.Hint, `"index":false`) {
		t.Errorf("details are %s, the hint is %q", fault.Details, fault.Hint)
	}
	b.must("git.apply", input{"patch": "--- a/b\n+++ b/b\n@@ -1,2 +1,2 @@\n-old\n+new\n mine", "index": false}) // no last line end
	if b.read("repo/b") != "new\nmine\n" || b.git("repo", "write-tree") != clean {
		t.Error("index:false reached the index, or the file was not patched")
	}
	b.git("repo", "reset", "-q", "--hard")
	fuzzy := "--- a/a\n+++ b/a\n@@ -3,6 +3,6 @@\n LINE\n line\n line\n-old\n+new\n line\n line\n"
	b.fails("git.apply", input{"patch": fuzzy}, 1, "patch_failed")
	b.must("git.apply", input{"patch": fuzzy, "fuzz": 1})
}

// A file that another program wrote again with the same content, as git stash pop does, is not in the way of the index.
func TestApplyAfterAFileWasWrittenAgain(t *testing.T) {
	b := newBench(t)
	b.repo()
	if err := os.Chtimes(filepath.Join(b.dir, "repo/README.md"), time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	b.must("git.apply", input{"patch": "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-hello\n+bye\n"})
	if got := b.git("repo", "status", "--porcelain"); got != "M  README.md" {
		t.Errorf("git status prints %q", got)
	}
}

func TestApplyMergesThreeWays(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.write("repo/README.md", "theirs\n")
	b.git("repo", "commit", "-q", "-a", "-m", "theirs")
	patch := b.must("git.diff", input{"from": "HEAD~1", "to": "HEAD"})["patch"]
	b.git("repo", "reset", "-q", "--hard", "HEAD~1")
	b.write("repo/README.md", "ours\n")
	b.git("repo", "commit", "-q", "-a", "-m", "ours")
	fault := b.fails("git.apply", input{"patch": patch, "three_way": true}, 1, "conflict")
	if !strings.Contains(string(fault.Details), `"README.md"`) || !strings.Contains(b.read("repo/README.md"), "<<<<<<< ours\nours\n=======\ntheirs\n>>>>>>> theirs\n") {
		t.Errorf("details %s, README.md %q", fault.Details, b.read("repo/README.md"))
	}
	b.fails("git.restore", input{"paths": []string{"README.md"}}, 1, "conflict")
	b.must("git.restore", input{"paths": []string{"README.md"}, "source": "HEAD", "staged": true, "worktree": true})
	if b.git("repo", "status", "--porcelain") != "" {
		t.Error("git.restore did not end the conflict")
	}
}

func TestBadPatchesAreRefused(t *testing.T) {
	b := newBench(t)
	b.repo()
	for name, patch := range map[string]string{
		"no patch": "hello", "no names": "@@ -1 +1 @@\n-a\n+b\n", "short hunk": "--- a/README.md\n+++ b/README.md\n@@ -1,3 +1,3 @@\n hello\n",
		"bad line": "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n*hello\n", "bad head": "--- a/README.md\n+++ b/README.md\n@@ -1,x +1 @@\n-a\n",
		"too few folders": "--- README.md\n+++ README.md\n@@ -1 +1 @@\n-hello\n+x\n", "two names": "--- a/README.md\n+++ b/other\n@@ -1 +1 @@\n-hello\n+x\n",
		"names that differ":   "diff --git a/README.md b/README.md\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-hello\n+x\n",
		"half a rename":       "diff --git a/README.md b/x\nrename from README.md\n",
		"a quote without end": "--- \"a/README.md\n+++ \"b/README.md\n@@ -1 +1 @@\n-hello\n+x\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			b.fails("git.apply", input{"patch": patch}, 2, "bad_input")
		})
	}
	b.fails("git.apply", input{}, 2, "bad_input")
	b.fails("git.apply", input{"patch": "x", "patch_file": "y"}, 2, "bad_input")
	b.fails("git.apply", input{"patch_file": "nope"}, 3, "not_found")
	b.fails("git.apply", input{"patch_file": "../../etc/passwd"}, 7, "unsafe_path")
	b.fails("git.apply", input{"patch": "x", "strip": -1}, 2, "bad_input")
	b.fails("git.apply", input{"patch": "x", "three_way": true, "index": false}, 2, "bad_input")
}

func TestRestore(t *testing.T) {
	b := newBench(t)
	first := b.repo()
	b.write("repo/a", "1\n")
	b.write("repo/sub/b", "1\n")
	b.commitAll("second")
	restored := func(in input, want ...any) {
		t.Helper()
		if got := b.must("git.restore", in)["restored"]; !reflect.DeepEqual(got, append([]any{}, want...)) {
			t.Errorf("git.restore %v = %v, want %v", in, got, want)
		}
	}
	b.write("repo/a", "2\n")
	b.write("repo/sub/b", "2\n")
	b.write("repo/untracked", "mine\n")
	b.git("repo", "add", "a")
	restored(input{"paths": []string{"."}}, "sub/b") // a is staged as it is
	restored(input{"paths": []string{"a"}, "staged": true}, "a")
	if b.git("repo", "status", "--porcelain") != " M a\n?? untracked" {
		t.Error(b.git("repo", "status", "--porcelain"))
	}
	restored(input{"paths": []string{"a"}}, "a")
	restored(input{"paths": []string{"a"}})
	restored(input{"paths": []string{"."}, "source": first, "staged": true, "worktree": true}, "a", "sub/b")
	if b.git("repo", "write-tree") != b.git("repo", "rev-parse", first+"^{tree}") || b.read("repo/untracked") != "mine\n" {
		t.Error("the index is not the source's, or an untracked file was touched")
	}
	// What nobody has stored is not overwritten by a file of the same name.
	b.write("repo/sub/b", "mine\n")
	fault := b.fails("git.restore", input{"paths": []string{"sub"}, "source": "HEAD"}, 1, "would_overwrite")
	if b.read("repo/sub/b") != "mine\n" || !strings.Contains(fault.Message, "sub/b") {
		t.Errorf("%+v", fault)
	}
	b.fails("git.restore", input{"paths": []string{"untracked"}}, 3, "not_found")
	b.fails("git.restore", input{"paths": []string{"a"}, "source": "nope"}, 3, "ref_not_found")
	b.fails("git.restore", input{"paths": []string{}}, 2, "bad_input")
	b.fails("git.restore", input{"paths": []string{"a"}, "worktree": false}, 2, "bad_input")
	b.fails("git.restore", input{"paths": []string{".git/config"}}, 7, "unsafe_path")
}

func TestStash(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.write("repo/.gitignore", "*.log\n")
	b.commitAll("second")
	b.fails("git.stash", input{}, 1, "nothing_to_stash")
	b.write("repo/README.md", "edited\n")
	b.write("repo/new", "new\n")
	b.write("repo/x.log", "ignored\n")
	data := b.must("git.stash", input{"message": "half done"})
	if data["commit"] != b.git("repo", "rev-parse", "stash") || at(t, data, "stashes", 0, "message") != "On main: half done" || b.read("repo/README.md") != "hello\n" || b.read("repo/new") != "new\n" {
		t.Errorf("git.stash = %v", data)
	}
	data = b.must("git.stash", input{"include_untracked": true})
	if _, err := os.Stat(filepath.Join(b.dir, "repo/new")); err == nil || b.read("repo/x.log") != "ignored\n" || len(data["stashes"].([]any)) != 2 {
		t.Errorf("git.stash of untracked files = %v", data)
	}
	list := b.must("git.stash", input{"action": "list"})["stashes"].([]any)
	if len(list) != 2 || at(t, list, 1, "message") != "On main: half done" || at(t, list, 1, "index") != 1.0 {
		t.Errorf("git.stash list = %v", list)
	}
	b.must("git.stash", input{"action": "pop", "entry": 1})
	if b.read("repo/README.md") != "edited\n" {
		t.Error("the older entry was not put back")
	}
	b.write("repo/new", "other\n")
	b.fails("git.stash", input{"action": "pop"}, 1, "would_overwrite")
	if b.read("repo/new") != "other\n" {
		t.Error("an untracked file was overwritten")
	}
	b.ok(os.Remove(filepath.Join(b.dir, "repo/new")))
	b.must("git.stash", input{"action": "apply"})
	data = b.must("git.stash", input{"action": "drop"})
	if b.read("repo/new") != "new\n" || len(data["stashes"].([]any)) != 0 {
		t.Errorf("git.stash drop = %v", data)
	}
	b.fails("git.stash", input{"action": "drop"}, 3, "ref_not_found")

	b.must("git.stash", input{"paths": []string{"README.md"}})
	b.write("repo/README.md", "committed\n")
	b.git("repo", "commit", "-q", "-a", "-m", "third")
	fault := b.fails("git.stash", input{"action": "pop"}, 1, "conflict")
	if !strings.Contains(string(fault.Details), "README.md") || len(b.must("git.stash", input{"action": "list"})["stashes"].([]any)) != 1 {
		t.Errorf("a conflict: %+v", fault)
	}
	for _, in := range []input{{"action": "clear"}, {"entry": 1}, {"action": "list", "message": "x"}, {"action": "pop", "entry": -1}, {"message": "a\nb"}, {"action": "drop", "index": true}} {
		b.fails("git.stash", in, 2, "bad_input")
	}
}

// In a workspace that is the repository nothing of the runtime's is stashed, restored or patched, whatever the repository
// ignores or tracks.
func TestTheRuntimesFolderIsLeftAlone(t *testing.T) {
	b := newBench(t)
	b.git(".", "init", "-q", "-b", "main")
	b.write(".gitignore", "!.lattice\n!/.lattice/\n")
	b.write(protocol.Dir+"/mine", "1")
	b.write("a", "1")
	b.git(".", "add", "a", ".gitignore")
	b.git(".", "add", "-f", protocol.Dir+"/mine")
	b.git(".", "commit", "-q", "-m", "first")
	b.write(protocol.Dir+"/mine", "2")
	b.write(protocol.Dir+"/other", "2")
	b.write("a", "2")
	b.write("new", "2")
	b.must("git.restore", input{"repo": ".", "paths": []string{"."}, "source": "HEAD"})
	if b.read("a") != "1" || b.read(protocol.Dir+"/mine") != "2" {
		t.Error("git.restore reached the runtime's folder")
	}
	b.write("a", "2")
	for _, in := range []input{{}, {"paths": []string{"."}}} {
		in["repo"], in["include_untracked"] = ".", true
		b.must("git.stash", in)
		if b.read("a") != "1" || b.read(protocol.Dir+"/mine") != "2" || b.read(protocol.Dir+"/other") != "2" {
			t.Error("git.stash reached the runtime's folder")
		}
		b.must("git.stash", input{"repo": ".", "action": "pop"})
	}
	if b.read("new") != "2" {
		t.Error("git.stash lost a file")
	}
	for _, name := range []string{"mine", "Config.json", "events/../mine", "configXjson"} {
		b.fails("git.apply", input{"repo": ".", "patch": "--- a/.lattice/" + name + "\n+++ b/.lattice/" + name + "\n@@ -1 +1 @@\n-2\n+3\n"}, 7, "unsafe_path")
	}
	b.fails("git.apply", input{"repo": ".", "patch": "--- a/.lattice/mine\n+++ b/.lattice/mine\n@@ -1 +1 @@\n-2\n+3\n"}, 7, "unsafe_path")
}

// A task board lies in .lattice and belongs to the repository: its files are staged, restored, stashed and patched as any others.
func TestBoardsAreCommitted(t *testing.T) {
	for _, repo := range []string{".", "repo"} {
		b := newBench(t)
		board := []string{".lattice/.gitignore", ".lattice/config.json", ".lattice/events/task_1.jsonl", ".lattice/tasks/task_1.json", ".lattice/workers/lite.toml"}
		own := []string{".lattice/agents/homes/h/key", ".lattice/calls/c.jsonl", ".lattice/events.old", ".lattice/outbox.jsonl", ".lattice/queue/wq_1.json", ".lattice/strange [*]"}
		b.write(repo+"/a", "1")
		b.git(repo, "init", "-q", "-b", "main")
		b.git(repo, "add", "a")
		b.git(repo, "commit", "-q", "-m", "first")
		for _, name := range append(own, board...) {
			b.write(repo+"/"+name, "1\n")
		}
		for _, in := range []input{{"paths": []string{"."}, "force": true}, {"all": true}} {
			in["repo"] = repo
			data := b.must("git.add", in)
			if got := names(t, data["staged"], "path"); !slices.Equal(got, board) {
				t.Errorf("git.add %v stages %v", in, got)
			}
		}
		b.must("git.commit", input{"repo": repo, "message": "board"})
		if status := b.must("git.status", input{"repo": repo, "untracked": "all"}); len(names(t, status["entries"], "path")) > 0 {
			t.Errorf("git.status = %v", status)
		}
		b.must("git.apply", input{"repo": repo, "patch": "--- a/" + board[2] + "\n+++ b/" + board[2] + "\n@@ -1 +1 @@\n-1\n+3\n"})
		for _, name := range board[:2] {
			b.write(repo+"/"+name, "2\n")
		}
		b.must("git.stash", input{"repo": repo, "include_untracked": true})
		b.must("git.stash", input{"repo": repo, "action": "pop"})
		b.must("git.restore", input{"repo": repo, "paths": []string{board[1]}, "source": "HEAD"})
		if ignored, config, events := b.read(repo+"/"+board[0]), b.read(repo+"/"+board[1]), b.read(repo+"/"+board[2]); ignored != "2\n" || config != "1\n" || events != "3\n" {
			t.Errorf("the board has %q, %q and %q", ignored, config, events)
		}
		for _, name := range own {
			if b.read(repo+"/"+name) != "1\n" && name != ".lattice/outbox.jsonl" { // the bench's own calls write there
				t.Errorf("%s was changed", name)
			}
		}
		b.must("git.checkout", input{"repo": repo, "ref": "HEAD", "force": true})
		if b.read(repo+"/"+board[2]) != "1\n" {
			t.Error("git.checkout does not bring the board back")
		}
	}
}
