package git_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAddStagesWhatIsAskedFor(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.write("repo/.gitignore", "*.log\n")
	b.write("repo/gone", "1")
	b.commitAll("base")
	b.write("repo/README.md", "edited\n")
	b.write("repo/new", "1")
	b.write("repo/x.log", "1")
	b.remove("gone")
	index := b.read("repo/.git/index")
	dry := b.must("git.add", input{"all": true, "dry_run": true})
	if got := names(t, dry["staged"], "path"); !slices.Equal(got, []string{"README.md", "gone", "new"}) || b.read("repo/.git/index") != index {
		t.Errorf("git.add with dry_run = %v, or the index changed", dry)
	}
	if out := b.git("repo", "count-objects"); !strings.HasPrefix(out, "7 objects") {
		t.Errorf("a dry run stored objects: %s", out)
	}
	data := b.must("git.add", input{"update": true})
	if got := names(t, data["staged"], "path"); !slices.Equal(got, []string{"README.md", "gone"}) || !slices.Equal(names(t, data["removed"], ""), []string{"gone"}) {
		t.Errorf("git.add with update = %v", data)
	}
	if fault := b.fails("git.add", input{"paths": []string{"x.log"}}, 1, "ignored"); !strings.Contains(fault.Hint, "force") {
		t.Errorf("%+v", fault)
	}
	data = b.must("git.add", input{"paths": []string{"x.log"}, "force": true})
	if got := names(t, data["staged"], "path"); !slices.Equal(got, []string{"README.md", "gone", "x.log"}) {
		t.Errorf("git.add with force = %v", data)
	}
	b.write("repo/.lattice-tmp-x", "1")
	b.write("repo/.lattice/y", "1")
	data = b.must("git.add", input{"paths": []string{"."}, "force": true})
	if got := names(t, data["staged"], "path"); !slices.Equal(got, []string{"README.md", "gone", "new", "x.log"}) {
		t.Errorf("git.add of everything with force = %v", data)
	}
	b.fails("git.add", input{"all": true, "update": true}, 2, "bad_input")
}

func TestCommitVariants(t *testing.T) {
	b := newBench(t)
	first := b.repo()
	ada, bob := input{"name": "Ada", "email": "ada@example.com"}, input{"name": "Bob", "email": "bob@example.com"}
	b.write("repo/a", "1\n")
	b.write("repo/b", "1\n")
	b.must("git.add", input{"all": true})
	data := b.must("git.commit", input{"paths": []string{"a"}, "message": "only a", "author": ada, "committer": bob, "signoff": true, "date": "2026-02-03T04:05:06+02:00"})
	if data["files_changed"] != 1.0 || data["additions"] != 1.0 || data["empty"] != false || data["engine"] == "" {
		t.Errorf("git.commit of a path = %v", data)
	}
	want := "Ada Bob <bob@example.com> 2026-02-03T04:05:06+02:00\nonly a\n\nSigned-off-by: Bob <bob@example.com>"
	if got := b.git("repo", "show", "-s", "--format=%an %cn <%ce> %aI%n%B"); got != want {
		t.Errorf("the commit is %q, want %q", got, want)
	}
	if staged := b.git("repo", "diff", "--cached", "--name-only"); staged != "b" {
		t.Errorf("staged: %q, want b", staged)
	}
	b.fails("git.commit", input{"paths": []string{"nope"}, "message": "x"}, 3, "not_found")
	b.fails("git.commit", input{"paths": []string{"a"}, "all": true, "message": "x"}, 2, "bad_input")
	b.write("message.txt", "from a file  \r\n\n\n\nbody\n\n")
	b.must("git.commit", input{"message_file": "message.txt", "author": ada})
	if got := b.git("repo", "show", "-s", "--format=%B"); got != "from a file\n\nbody" {
		t.Errorf("the message is %q", got)
	}
	b.fails("git.commit", input{"message_file": "nope", "allow_empty": true}, 3, "not_found")
	b.fails("git.commit", input{"message_file": "message.txt", "message": "x"}, 2, "bad_input")
	b.fails("git.commit", input{"message": " \n"}, 2, "bad_input")

	before := b.git("repo", "rev-parse", "HEAD")
	b.env.IdempotencyKey = "key"
	amended := b.must("git.commit", input{"amend": true, "date": "2026-03-01T00:00:00Z"})
	if at(t, amended, "parents", 0) != b.git("repo", "rev-parse", before+"^") || amended["commit"] == before {
		t.Errorf("git.commit with amend = %v", amended)
	}
	if got := b.git("repo", "show", "-s", "--format=%an|%B"); got != "Ada|from a file\n\nbody\n\nLattice-Key: key" {
		t.Errorf("amended: %q", got)
	}
	if again := b.must("git.commit", input{"amend": true}); again["already"] != true || again["commit"] != amended["commit"] {
		t.Errorf("git.commit with amend again = %v", again)
	}
	b.env.IdempotencyKey = "other"
	b.must("git.commit", input{"amend": true, "author": bob})
	if got := b.git("repo", "show", "-s", "--format=%an|%B"); got != "Bob|from a file\n\nbody\n\nLattice-Key: other" {
		t.Errorf("amended with another author: %q", got)
	}
	b.env.IdempotencyKey = ""
	empty := b.must("git.commit", input{"message": "nothing", "allow_empty": true, "author": ada})
	if empty["empty"] != true || empty["files_changed"] != 0.0 {
		t.Errorf("git.commit of nothing = %v", empty)
	}
	b.fails("git.commit", input{"message": "x"}, 1, "nothing_to_commit")
	b.fails("git.commit", input{"message": "x", "expect_head": first}, 1, "head_moved")
	b.git("repo", "fsck", "--strict")
}

// The first commit, and one of a repository that does not change, say how much they are as any other does.
func TestTheFirstCommit(t *testing.T) {
	b := newBench(t)
	b.write("repo/a", "1\n2\n")
	b.git("repo", "init", "-q", "-b", "main")
	b.fails("git.commit", input{"message": "nothing"}, 1, "nothing_to_commit")
	data := b.must("git.commit", input{"message": "first", "all": true})
	if data["additions"] != 2.0 || len(data["parents"].([]any)) != 0 || data["branch"] != "main" {
		t.Errorf("git.commit = %v", data)
	}
}

func TestConflictsAreNotCommitted(t *testing.T) {
	b := newBench(t)
	b.conflict()
	fault := b.fails("git.commit", input{"message": "x"}, 1, "conflict")
	if fault.Hint == "" {
		t.Errorf("%+v", fault)
	}
	b.fails("git.commit", input{"message": "x", "all": true}, 1, "conflict")
	status := b.must("git.status", nil)
	var paths []string
	for _, e := range status["entries"].([]any) {
		if e.(map[string]any)["conflict"] != nil {
			paths = append(paths, e.(map[string]any)["path"].(string))
		}
	}
	for _, name := range paths {
		if _, err := os.Lstat(filepath.Join(b.dir, "repo", name)); err != nil {
			b.write("repo/"+name, "resolved\n")
		}
	}
	b.must("git.add", input{"paths": paths})
	if data := b.must("git.commit", input{"message": "merged"}); len(data["parents"].([]any)) != 2 {
		t.Errorf("git.commit of a merge = %v", data)
	}
}

// The key of a call is found in a commit that was packed since, too.
func TestTheKeyIsFoundInAPackedCommit(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.env.IdempotencyKey = "key"
	made := b.must("git.commit", input{"message": "x", "allow_empty": true})
	b.git("repo", "gc", "-q")
	b.git("repo", "pack-refs", "--all")
	if again := b.must("git.commit", input{"message": "x", "allow_empty": true}); again["already"] != true || again["commit"] != made["commit"] {
		t.Errorf("git.commit again = %v", again)
	}
}
