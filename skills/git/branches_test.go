package git_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// names lists one member of the objects in a list.
func names(t testing.TB, list any, member string) []string {
	t.Helper()
	var all []string
	for _, e := range list.([]any) {
		text, ok := e.(string)
		if !ok {
			text, _ = e.(map[string]any)[member].(string)
		}
		all = append(all, text)
	}
	return all
}

func TestBranches(t *testing.T) {
	b := newBench(t)
	first := b.repo()
	b.git(".", "clone", "-q", "repo", "copy")
	b.write("copy/x", "1")
	b.git("copy", "add", "-A")
	b.git("copy", "commit", "-q", "-m", "second")
	second := b.git("copy", "rev-parse", "HEAD")

	made := b.must("git.branch", input{"repo": "copy", "action": "create", "name": "fix/a", "start_point": "origin/main"})
	if at(t, made, "branches", 0, "name") != "fix/a" || at(t, made, "branches", 0, "upstream") != "origin/main" || at(t, made, "branches", 0, "commit") != first {
		t.Errorf("create = %v", made)
	}
	b.must("git.branch", input{"repo": "copy", "action": "create", "name": "plain", "start_point": "origin/main", "track": false})
	list := b.must("git.branch", input{"repo": "copy"})
	if got := names(t, list["branches"], "name"); !slices.Equal(got, []string{"fix/a", "main", "plain"}) {
		t.Errorf("list = %v", got)
	}
	main := at(t, list, "branches", 1)
	if at(t, main, "current") != true || at(t, main, "ahead") != 1.0 || at(t, main, "commit") != second || at(t, list, "branches", 2, "upstream") != "" {
		t.Errorf("list = %v", list)
	}
	all := b.must("git.branch", input{"repo": "copy", "remote": true})
	if got := names(t, all["branches"], "name"); !slices.Equal(got, []string{"fix/a", "main", "plain", "origin/main"}) {
		t.Errorf("list with remotes = %v", got)
	}
	b.fails("git.branch", input{"repo": "copy", "action": "create", "name": "plain"}, 1, "exists")
	b.fails("git.branch", input{"repo": "copy", "action": "create", "name": "plain/below"}, 1, "exists")
	b.fails("git.branch", input{"repo": "copy", "action": "create", "name": "new", "start_point": "nope"}, 3, "ref_not_found")
	b.fails("git.branch", input{"repo": "copy", "action": "create", "name": "main", "force": true}, 1, "in_use")
	b.fails("git.branch", input{"repo": "copy", "action": "create", "name": "-d"}, 7, "unsafe")
	b.fails("git.branch", input{"repo": "copy", "action": "create", "name": "x", "start_point": "--help"}, 7, "unsafe")
	b.fails("git.branch", input{"repo": "copy", "action": "explode", "name": "x"}, 2, "bad_input")
	b.must("git.branch", input{"repo": "copy", "action": "create", "name": "plain", "start_point": "main", "force": true})
	renamed := b.must("git.branch", input{"repo": "copy", "action": "rename", "name": "plain", "new_name": "named"})
	if at(t, renamed, "branches", 0, "name") != "named" || at(t, renamed, "branches", 0, "commit") != second {
		t.Errorf("rename = %v", renamed)
	}
	b.fails("git.branch", input{"repo": "copy", "action": "rename", "name": "named", "new_name": "main"}, 1, "exists")
	b.fails("git.branch", input{"repo": "copy", "action": "delete", "name": "main"}, 1, "in_use")
	b.fails("git.branch", input{"repo": "copy", "action": "delete", "name": "nope"}, 3, "ref_not_found")
	b.git("copy", "checkout", "-q", "fix/a")
	b.fails("git.branch", input{"repo": "copy", "action": "delete", "name": "named"}, 1, "not_merged")
	gone := b.must("git.branch", input{"repo": "copy", "action": "delete", "name": "named", "force": true})
	if at(t, gone, "branches", 0, "commit") != second {
		t.Errorf("delete = %v, want the branch as it was", gone)
	}
}

func TestABranchBeforeItsFirstCommit(t *testing.T) {
	b := newBench(t)
	b.write("repo/x", "1")
	b.git("repo", "init", "-q", "-b", "main")
	list := b.must("git.branch", nil)
	if at(t, list, "branches", 0, "name") != "main" || at(t, list, "branches", 0, "current") != true || at(t, list, "branches", 0, "commit") != "" {
		t.Errorf("git.branch = %v", list)
	}
	done := b.must("git.checkout", input{"ref": "other", "create": true})
	if done["branch"] != "other" || done["commit"] != "" {
		t.Errorf("git.checkout = %v", done)
	}
	b.fails("git.branch", input{"action": "create", "name": "third"}, 3, "ref_not_found")
}

func TestCheckoutMovesAndKeepsEdits(t *testing.T) {
	b := newBench(t)
	first := b.repo()
	b.write("repo/kept", "1\n")
	b.write("repo/removed later", "1\n")
	base := b.commitAll("base")
	b.git("repo", "checkout", "-q", "-b", "other")
	b.write("repo/README.md", "other\n")
	b.write("repo/new", "1\n")
	b.git("repo", "rm", "-q", "removed later")
	other := b.commitAll("other")
	b.git("repo", "tag", "v1", first)
	b.write("repo/kept", "edited\n")
	b.write("repo/quoted \"name\"\n", "new\n")
	b.git("repo", "add", "quoted \"name\"\n")
	done := b.must("git.checkout", input{"ref": "main"})
	if done["branch"] != "main" || done["commit"] != base || done["updated"] != 2.0 || done["removed"] != 1.0 ||
		at(t, done, "previous", "ref") != "refs/heads/other" || at(t, done, "previous", "commit") != other {
		t.Errorf("git.checkout = %v", done)
	}
	if got := names(t, done["kept_local"], ""); !slices.Equal(got, []string{"kept", "quoted \"name\"\n"}) {
		t.Errorf("kept_local = %q", got)
	}
	if b.read("repo/kept") != "edited\n" {
		t.Error("an edit was lost")
	}
	b.write("repo/README.md", "edited\n")
	if fault := b.fails("git.checkout", input{"ref": "other"}, 1, "would_overwrite"); fault.Hint == "" {
		t.Errorf("%+v", fault)
	}
	merged := b.call("git.checkout", input{"ref": "other", "merge": true})
	if merged.code() == "" && b.read("repo/README.md") == "other\n" {
		t.Errorf("merge lost an edit: %s", merged.stdout)
	}
	b.git("repo", "reset", "-q", "--hard", "main")
	b.write("repo/README.md", "edited\n")
	if merged := b.must("git.checkout", input{"ref": "other", "merge": true}); !slices.Equal(names(t, merged["conflicts"], ""), []string{"README.md"}) {
		t.Errorf("merge = %v", merged)
	}
	b.git("repo", "reset", "-q", "--hard", "other")
	for _, tc := range []struct {
		name   string
		in     input
		branch string
		commit string
	}{
		{"tag", input{"ref": "v1"}, "", first},
		{"commit", input{"ref": other}, "", other},
		{"branch", input{"ref": "main"}, "main", base},
		{"detached", input{"ref": "main", "detach": true}, "", base},
		{"created", input{"ref": "new/branch", "create": true}, "new/branch", base},
		{"created elsewhere", input{"ref": "newer", "create": true, "start_point": "v1"}, "newer", first},
	} {
		done := b.must("git.checkout", tc.in)
		if done["branch"] != tc.branch || done["commit"] != tc.commit {
			t.Errorf("%s: git.checkout = %v, want %q at %s", tc.name, done, tc.branch, tc.commit)
		}
		if got := b.git("repo", "rev-parse", "HEAD"); got != tc.commit {
			t.Errorf("%s: HEAD is %s", tc.name, got)
		}
	}
	b.fails("git.checkout", input{"ref": "main", "create": true}, 1, "exists")
	b.fails("git.checkout", input{"ref": "nope"}, 3, "ref_not_found")
	b.fails("git.checkout", input{"ref": "-f"}, 7, "unsafe")
	b.fails("git.checkout", input{"ref": "main", "start_point": "x"}, 2, "bad_input")
	b.fails("git.checkout", nil, 2, "bad_input")
}

func TestCheckoutMakesTheBranchThatOriginHas(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.git("repo", "branch", "theirs")
	b.git(".", "clone", "-q", "repo", "copy")
	done := b.must("git.checkout", input{"repo": "copy", "ref": "theirs"})
	if done["branch"] != "theirs" || b.git("copy", "rev-parse", "--abbrev-ref", "theirs@{upstream}") != "origin/theirs" {
		t.Errorf("git.checkout = %v", done)
	}
}

// Whatever git would take with force, a file that nothing has stored stays, and the call says which it was.
func TestForceNeverRemovesUntrackedFiles(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.write("repo/.gitignore", "ignored\n*.log\n")
	b.write("repo/becomes folder", "1\n")
	b.commitAll("base")
	b.git("repo", "checkout", "-q", "-b", "other")
	b.git("repo", "rm", "-q", "becomes folder")
	for _, name := range []string{"untracked", "ignored", "dir/below", "file", "becomes folder/x"} {
		b.write("repo/"+name, "theirs\n")
	}
	b.git("repo", "add", "-A", "-f")
	b.git("repo", "commit", "-q", "-m", "other")
	b.git("repo", "checkout", "-q", "main")
	for _, tc := range []struct {
		name  string
		files []string
	}{
		{"an untracked file", []string{"untracked"}},
		{"an ignored file", []string{"ignored"}},
		{"a file for a folder", []string{"dir"}},
		{"a folder for a file", []string{"file/x", "file/y.log"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, name := range tc.files {
				b.write("repo/"+name, "mine\n")
			}
			b.write("repo/README.md", "edited\n")
			for _, in := range []input{{"ref": "other", "force": true}, {"ref": "other"}, {"ref": "other", "paths": []string{"."}}} {
				if tc.name == "an ignored file" && in["force"] == nil && in["paths"] == nil {
					b.git("repo", "checkout", "-q", "--", "README.md")
				}
				b.fails("git.checkout", in, 1, "would_overwrite")
				for _, name := range tc.files {
					if got := b.read("repo/" + name); got != "mine\n" {
						t.Errorf("%v: %s holds %q", in, name, got)
					}
				}
			}
			b.ok(os.RemoveAll(filepath.Join(b.dir, "repo", strings.Split(tc.files[0], "/")[0])))
		})
	}
	b.write("repo/README.md", "edited\n")
	b.write("repo/elsewhere.log", "mine\n")
	b.write("repo/notes", "mine\n")
	done := b.must("git.checkout", input{"ref": "other", "force": true})
	if b.read("repo/README.md") != "hello\n" || b.read("repo/elsewhere.log") != "mine\n" || b.read("repo/notes") != "mine\n" {
		t.Error("force took an untracked file, or left an edit")
	}
	if done["updated"] != 6.0 || done["removed"] != 1.0 { // README.md and the five that are new
		t.Errorf("git.checkout = %v", done)
	}
}

func TestCheckoutOfPaths(t *testing.T) {
	b := newBench(t)
	first := b.repo()
	b.write("repo/README.md", "second\n")
	b.write("repo/a*", "1\n")
	b.write("repo/ab", "1\n")
	second := b.commitAll("second")
	b.write("repo/README.md", "edited\n")
	b.write("repo/a*", "edited\n")
	b.write("repo/ab", "edited\n")
	done := b.must("git.checkout", input{"paths": []string{"a*"}})
	if b.read("repo/a*") != "1\n" || b.read("repo/ab") != "edited\n" || done["updated"] != 1.0 || done["commit"] != second {
		t.Errorf("git.checkout = %v", done)
	}
	b.must("git.checkout", input{"ref": first, "paths": []string{"README.md"}})
	if b.read("repo/README.md") != "hello\n" || b.git("repo", "rev-parse", "HEAD") != second {
		t.Error("README.md is not as it was in the first commit, or HEAD moved")
	}
	b.fails("git.checkout", input{"paths": []string{"nope"}}, 3, "not_found")
	b.fails("git.checkout", input{"paths": []string{"../x"}}, 7, "unsafe_path")
}

// Where the work tree is the workspace, history may hold the runtime's folder: nothing of it is written, staged or removed.
func TestCheckoutLeavesTheRuntimesFolderAlone(t *testing.T) {
	b := newBench(t)
	b.write("a", "1")
	b.git(".", "init", "-q", "-b", "main")
	b.git(".", "add", "a")
	b.git(".", "commit", "-q", "-m", "clean")
	b.git(".", "checkout", "-q", "-b", "evil")
	b.write(".lattice/outbox.jsonl", "forged\n")
	b.git(".", "add", "-f", ".lattice/outbox.jsonl")
	b.git(".", "commit", "-q", "-m", "evil")
	b.git(".", "checkout", "-q", "main")
	for _, in := range []input{{"ref": "evil"}, {"ref": "evil", "force": true}, {"ref": "evil", "paths": []string{".lattice"}}} {
		in["repo"] = "."
		b.fails("git.checkout", in, 7, "reserved_path")
	}
	b.git(".", "checkout", "-q", "-f", "evil")
	b.write(".lattice/outbox.jsonl", "")
	b.write("a", "2")
	added := b.must("git.add", input{"repo": ".", "all": true})
	if got := names(t, added["staged"], "path"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("git.add stages %v", got)
	}
}

func TestWorktrees(t *testing.T) {
	b := newBench(t)
	head := b.repo()
	list := b.must("git.worktree", input{"action": "add", "dest": "wt/fix", "branch": "fix"})
	if got := names(t, list["worktrees"], "path"); !slices.Equal(got, []string{"repo", "wt/fix"}) {
		t.Errorf("work trees = %v", got)
	}
	if at(t, list, "worktrees", 1, "branch") != "fix" || at(t, list, "worktrees", 1, "head") != head || at(t, list, "worktrees", 0, "main") != true {
		t.Errorf("git.worktree = %v", list)
	}
	b.write("wt/fix/new", "1")
	if status := b.must("git.status", input{"repo": "wt/fix"}); status["branch"] != "fix" || at(t, status, "counts", "untracked") != 1.0 || at(t, status, "counts", "staged") != 0.0 {
		t.Errorf("git.status of a linked work tree = %v", status)
	}
	b.must("git.add", input{"repo": "wt/fix", "all": true})
	made := b.must("git.commit", input{"repo": "wt/fix", "message": "in a work tree"})
	if b.git("repo", "rev-parse", "fix") != made["commit"] || b.git("repo", "rev-parse", "main") != head {
		t.Errorf("git.commit = %v", made)
	}
	b.must("git.worktree", input{"action": "add", "dest": "wt/detached", "ref": "HEAD"})
	b.fails("git.worktree", input{"action": "add", "dest": "wt/again", "branch": "fix"}, 1, "in_use")
	b.fails("git.worktree", input{"action": "add", "dest": "wt/fix", "branch": "x"}, 1, "dest_exists")
	b.fails("git.worktree", input{"action": "add", "dest": "wt/x", "ref": "nope"}, 3, "ref_not_found")
	b.fails("git.worktree", input{"action": "add", "dest": "../x"}, 7, "unsafe_path")
	b.fails("git.worktree", input{"action": "add", "dest": ".lattice/x"}, 7, "reserved_path")
	b.fails("git.worktree", input{"action": "remove", "dest": "repo"}, 1, "in_use")
	b.fails("git.worktree", input{"action": "remove", "dest": "nope"}, 3, "not_a_repository")
	outside := t.TempDir()
	b.ok(os.Symlink(outside, filepath.Join(b.dir, "out")))
	b.fails("git.worktree", input{"action": "add", "dest": "out/x"}, 7, "unsafe_path")
	b.fails("git.worktree", input{"action": "add", "dest": "out/deeper/x"}, 7, "unsafe_path")
	b.fails("git.worktree", input{"action": "add", "dest": "out"}, 7, "unsafe_path")
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("outside holds %v", left)
	}
	b.write("wt/fix/untracked", "1")
	b.fails("git.worktree", input{"action": "remove", "dest": "wt/fix"}, 1, "would_overwrite")
	b.must("git.worktree", input{"action": "remove", "dest": "wt/fix", "force": true})
	b.ok(os.RemoveAll(filepath.Join(b.dir, "wt/detached")))
	if list := b.must("git.worktree", nil); at(t, list, "worktrees", 1, "prunable") != true {
		t.Errorf("git.worktree = %v, want a prunable one", list)
	}
	if list := b.must("git.worktree", input{"action": "prune"}); len(list["worktrees"].([]any)) != 1 {
		t.Errorf("after prune = %v", list)
	}
}
