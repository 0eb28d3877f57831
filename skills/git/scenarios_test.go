package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// row is one kind of repository and what is done with it. TestConformance builds it for each engine and for the real git.
type row struct {
	name  string
	build func(b *bench)
	reads []step // beside those of every row
	// writes are done by both engines, raw is the same by the real git; none is "stage everything, commit".
	writes []step
	raw    func(b *bench)
	// unsupported names the skills that the native engine may refuse here, "*" is all of them; it must not fail otherwise.
	unsupported string
	inPlace     bool // the repository cannot be copied
}

// step is one call.
type step struct {
	skill string
	in    input
}

// link makes a symlink in the repository.
func (b *bench) link(target, name string) {
	b.t.Helper()
	b.ok(os.Symlink(target, filepath.Join(b.dir, "repo", name)))
}

func (b *bench) remove(name string) {
	b.t.Helper()
	b.ok(os.RemoveAll(filepath.Join(b.dir, "repo", name)))
}

func (b *bench) chmod(name string, mode os.FileMode) {
	b.t.Helper()
	b.ok(os.Chmod(filepath.Join(b.dir, "repo", name), mode))
}

// files writes files of the repository, name and content in turn.
func (b *bench) files(pairs ...string) {
	b.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		b.write("repo/"+pairs[i], pairs[i+1])
	}
}

// conflict leaves a merge with every kind of conflict.
func (b *bench) conflict() {
	b.t.Helper()
	b.repo()
	b.files("both", "base\n", "we delete", "base\n", "they delete", "base\n", "same", "base\n")
	b.commitAll("base")
	b.git("repo", "checkout", "-q", "-b", "side")
	b.files("both", "theirs\n", "added", "theirs\n", "we delete", "theirs\n", "same", "equal\n", "theirs", "x\n")
	b.remove("they delete")
	b.commitAll("theirs")
	b.git("repo", "checkout", "-q", "main")
	b.files("both", "ours\n", "added", "ours\n", "they delete", "ours\n", "same", "equal\n")
	b.remove("we delete")
	b.commitAll("ours")
	_ = rawGit(filepath.Join(b.dir, "repo"), "merge", "-q", "side").Run() // conflicts are the point
}

// merges makes a history with merges, among them one of three branches and one that changes nothing.
func (b *bench) merges() {
	b.t.Helper()
	b.repo()
	for _, name := range []string{"a", "b", "c"} {
		b.git("repo", "checkout", "-q", "-b", name, "main")
		b.files(name, name+"\n")
		b.commitAll(name)
	}
	b.git("repo", "checkout", "-q", "main")
	b.git("repo", "merge", "-q", "--no-ff", "-m", "octopus", "a", "b")
	b.git("repo", "merge", "-q", "-s", "ours", "-m", "ours", "c")
	b.git("repo", "tag", "-a", "-m", "tagged", "v1")
	b.git("repo", "tag", "light", "main~1")
}

// scenarios is the table.
func scenarios() []row {
	nothing := func(*bench) {}
	reset := func(args ...string) func(*bench) {
		return func(b *bench) { _ = rawGit(filepath.Join(b.dir, "repo"), args...).Run() } // that it may fail is part of the row
	}
	return []row{
		{name: "fresh", build: func(b *bench) { b.write("repo/x", ""); b.git("repo", "init", "-q", "-b", "trunk"); b.remove("x") }},
		{name: "first commit", build: func(b *bench) {
			b.files("a", "1\n", "sub/b", "2\n")
			b.git("repo", "init", "-q", "-b", "trunk")
		}},
		{name: "clean", build: func(b *bench) { b.repo() }},
		{name: "every kind of change", build: func(b *bench) {
			b.repo()
			b.files("staged", "1\n", "edited", "1\n", "both", "1\n", "deleted", "1\n", "removed", "1\n", "mode", "1\n", "type", "1\n", "dir/file", "1\n",
				"becomes dir", "1\n", "touched", "1\n")
			b.link("staged", "link")
			b.commitAll("second")
			b.files("staged", "2\n", "both", "2\n", "new", "1\n", "added then edited", "1\n", "added then gone", "1\n")
			b.git("repo", "add", "-A")
			b.git("repo", "rm", "-q", "removed")
			b.files("edited", "2\n", "both", "3\n", "added then edited", "2\n", "untracked", "1\n", "untracked dir/x", "1\n")
			for _, name := range []string{"deleted", "added then gone", "type", "dir", "becomes dir", "link"} {
				b.remove(name)
			}
			b.link("elsewhere", "type")
			b.link("edited", "link")
			b.files("dir", "now a file\n", "becomes dir/inside", "1\n", "touched", "1\n")
			b.chmod("mode", 0o755)
		}},
		{name: "odd names", build: func(b *bench) {
			b.repo()
			for _, name := range []string{" lead", "trail ", `q"uote`, `back\slash`, "new\nline", "tab\tname", "glob*[a]?", "-dash", "--", ":(top)x", "HEAD", "main",
				"na\u00efve", "nai\u0308ve", "日本", "a..b", "@", "~1", "^", "$HOME", "`id`", "#hash", "!bang", "a.lock", strings.Repeat("long", 60)} {
				b.files(name, name+"\n", "dir/"+name, "x\n")
			}
			b.commitAll("odd")
			b.files("glob*[a]?", "2\n", "new\nline", "2\n", "globXa", "untracked\n", "un\ttracked\n", "x\n", "-dash", "2\n")
		}, reads: []step{
			{"git.status", input{"paths": []string{"glob*[a]?"}}}, {"git.status", input{"paths": []string{":(top)x"}}},
			{"git.log", input{"paths": []string{"HEAD"}}}, {"git.log", input{"paths": []string{"glob*"}}}, {"git.rev_parse", input{"refs": []string{"main"}}},
		}},
		{name: "names that are no UTF-8", inPlace: true, build: func(b *bench) {
			b.repo()
			b.files("caf\xe9", "1\n", "dir\xff/x", "1\n")
			b.commitAll("latin")
			b.files("caf\xe9", "2\n")
		}},
		{name: "names that sort oddly", build: func(b *bench) {
			b.repo()
			b.files("a/x", "1", "a.b", "1", "a-b", "1", "ab", "1", "a b", "1", "dir/x", "1", "dir.x", "1", "dir-x", "1", "B", "1", "Z/z", "1")
			b.commitAll("sorted")
			b.files("a.b", "2", "dir-x", "2", "dir/x", "2", "dir/y", "2", "a/y", "2", "a0", "2")
		}},
		{name: "ignores", build: func(b *bench) {
			b.files(".gitignore", "*.log\n!keep.log\n/top\nbuild/\n**/deep/**\n\\#hash\n\\!bang\ntrail\\ \nfoo/*\n!foo/bar\nsub/only\n[a-c].txt\n# comment\n*.tmp # no comment\n",
				"sub/.gitignore", "!*.log\nlocal\n", "a.log", "", "keep.log", "", "top", "", "sub/top", "", "build/x", "", "sub/build/y", "", "x/deep/y/z", "", "#hash", "",
				"!bang", "", "trail ", "", "foo/bar", "", "foo/baz", "", "sub/only", "", "other/sub/only", "", "a.txt", "", "d.txt", "", "sub/b.log", "", "sub/local", "",
				"excluded", "", "ignored dir/.gitignore", "*\n", "ignored dir/x", "", "all/a.log", "", "all/b.log", "", "mixed/a.log", "", "mixed/b", "", "x.tmp # no comment", "")
			b.git("repo", "init", "-q", "-b", "main")
			b.write("repo/.git/info/exclude", "/excluded\n")
			b.git("repo", "add", "-f", "build/x", "all/a.log")
			b.git("repo", "commit", "-q", "-m", "ignored files can be tracked")
			b.files("build/x", "edited", "build/new", "")
		}},
		{name: "an ignored parent hides what it re-includes", build: func(b *bench) {
			b.repo()
			b.files(".gitignore", "out\n!out/keep\nbin/\n!bin/\n", "out/keep", "", "bin/x", "", "deep/out/keep", "")
		}},
		{name: "untracked folders", build: func(b *bench) {
			b.repo()
			b.files("new/a/b/c", "", "new/d", "", "README.d/x", "")
			b.ok(os.MkdirAll(filepath.Join(b.dir, "repo/empty/inside"), 0o755))
			b.files("nested/x", "")
			b.git("repo/nested", "init", "-q", "-b", "main")
			b.git("repo/nested", "add", "-A")
			b.git("repo/nested", "commit", "-q", "-m", "inside")
			b.link("new", "link to a folder")
			b.link("nowhere", "dangling")
		}, unsupported: "git.add git.commit"},
		{name: "a merge with conflicts", build: func(b *bench) { b.conflict() }, reads: []step{{"git.diff", input{}}, {"git.diff", input{"staged": true}}}, writes: []step{
			{"git.commit", input{"message": "too early"}}, {"git.commit", input{"message": "too early", "all": true}},
			{"git.add", input{"all": true}}, {"git.commit", input{"message": "merged", "author": ada(), "date": fixedDate}},
		}, raw: func(b *bench) {
			b.git("repo", "add", "-A")
			b.git("repo", "commit", "-q", "-m", "merged")
		}, unsupported: "git.status git.add git.commit"},
		{name: "a merge to conclude", build: func(b *bench) {
			b.merges()
			b.git("repo", "checkout", "-q", "-b", "more", "a")
			b.files("more", "1\n")
			b.commitAll("more")
			b.git("repo", "checkout", "-q", "main")
			b.git("repo", "merge", "-q", "--no-commit", "--no-ff", "more")
		}, unsupported: "git.commit"},
		{name: "a merge that changes nothing", build: func(b *bench) {
			b.merges()
			b.git("repo", "checkout", "-q", "-b", "more", "a")
			b.git("repo", "commit", "-q", "--allow-empty", "-m", "empty")
			b.git("repo", "checkout", "-q", "main")
			b.git("repo", "merge", "-q", "--no-commit", "--no-ff", "-s", "ours", "more")
		}, unsupported: "git.commit"},
		{name: "a history with merges", build: func(b *bench) { b.merges() }, reads: []step{
			{"git.log", input{"first_parent": true, "stats": true}}, {"git.log", input{"range": "v1~1..v1"}}, {"git.log", input{"range": "a...c"}}, {"git.log", input{"paths": []string{"b"}}},
			{"git.log", input{"max_count": 2, "skip": 1}}, {"git.log", input{"ref": "light"}}, {"git.show", input{"ref": "v1~1"}}, {"git.diff", input{"from": "v1~1", "to": "c", "format": "name-status"}}, {"git.merge_base", input{"commits": []string{"a", "c"}}},
			{"git.rev_parse", input{"refs": []string{"v1", "light", "v1^{commit}", "main^2", "main~1^3", "v1^{tree}", "refs/heads/a", "heads/a", "tags/v1"}}},
			{"git.rev_parse", input{"refs": []string{"HEAD@{1}"}}}, {"git.rev_parse", input{"refs": []string{"nope"}}}, {"git.log", input{"ref": "main^5"}},
		}},
		{name: "detached", build: func(b *bench) {
			b.merges()
			b.git("repo", "checkout", "-q", "--detach", "a")
			b.files("d", "1\n")
		}},
		{name: "an orphan branch", build: func(b *bench) {
			b.merges()
			b.git("repo", "checkout", "-q", "--orphan", "fresh")
		}},
		{name: "a linked work tree", inPlace: true, build: func(b *bench) {
			b.merges()
			b.ok(os.Rename(filepath.Join(b.dir, "repo"), filepath.Join(b.dir, "main")))
			b.git("main", "worktree", "add", "-q", "-b", "linked", filepath.Join(b.dir, "repo"), "a")
			b.files("l", "1\n", "a", "edited\n")
		}, unsupported: "*"},
		{name: "a submodule", build: func(b *bench) {
			b.repo()
			b.write("other/x", "1\n")
			b.git("other", "init", "-q", "-b", "main")
			b.git("other", "add", "-A")
			b.git("other", "commit", "-q", "-m", "other")
			b.git("repo", "-c", "protocol.file.allow=always", "submodule", "add", "-q", "../other", "sub")
			b.git("repo", "config", "--remove-section", "submodule.sub")
			b.git("repo", "commit", "-q", "-m", "submodule")
			b.files("f", "1\n")
		}, unsupported: "*"},
		{name: "a submodule that is not there", build: func(b *bench) {
			head := b.repo()
			b.git("repo", "update-index", "--add", "--cacheinfo", "160000,"+head+",sub")
			b.git("repo", "commit", "-q", "-m", "submodule")
			b.ok(os.MkdirAll(filepath.Join(b.dir, "repo/sub"), 0o755))
			b.files("f", "1\n")
		}, unsupported: "*"},
		{name: "index of version 4", build: func(b *bench) {
			b.repo()
			b.files("dir/long/path/a", "1\n", "dir/long/path/b", "1\n", "dir/other", "1\n")
			b.commitAll("second")
			b.git("repo", "update-index", "--index-version", "4")
			b.files("dir/long/path/b", "2\n", "dir/long/c", "1\n")
		}, unsupported: "*"},
		{name: "packed", build: func(b *bench) {
			b.merges()
			b.git("repo", "gc", "-q")
			b.git("repo", "branch", "-q", "loose", "a")
			b.files("p", "1\n", "a", "2\n")
		}, reads: []step{{"git.rev_parse", input{"refs": []string{"v1", "a", "loose", "light"}}}, {"git.log", input{"ref": "b"}}}},
		{name: "shallow", inPlace: true, build: func(b *bench) {
			b.merges()
			b.ok(os.Rename(filepath.Join(b.dir, "repo"), filepath.Join(b.dir, "full")))
			b.git(".", "clone", "-q", "--depth=2", "--template=", "file://"+filepath.Join(b.dir, "full"), "repo")
			b.files("s", "1\n")
		}},
		{name: "behind and ahead of an upstream", build: func(b *bench) {
			b.merges()
			b.git("repo", "update-ref", "refs/remotes/origin/main", "c")
			b.git("repo", "config", "remote.origin.url", "https://example.com/x.git")
			b.git("repo", "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
			b.git("repo", "branch", "-q", "--set-upstream-to=origin/main", "main")
			b.git("repo", "config", "branch.a.remote", "origin")
			b.git("repo", "config", "branch.a.merge", "refs/heads/gone")
			b.git("repo", "config", "branch.b.remote", ".")
			b.git("repo", "config", "branch.b.merge", "refs/heads/main")
		}, reads: []step{{"git.rev_parse", input{"refs": []string{"@{upstream}", "main@{u}"}}}}},
		{name: "lines end in CRLF", build: func(b *bench) {
			b.repo()
			b.files(".gitattributes", "*.txt text eol=crlf\n*.sh text eol=lf\n*.bin -text\n", "a.txt", "1\r\n2\r\n", "b.sh", "1\n", "c.bin", "1\r\n")
			b.commitAll("crlf")
			b.files("a.txt", "1\r\n3\r\n", "d.txt", "new\n")
		}, unsupported: "*"},
		{name: "autocrlf", build: func(b *bench) {
			b.repo()
			b.git("repo", "config", "core.autocrlf", "true")
			b.files("a.txt", "1\r\n2\r\n")
		}, unsupported: "*"},
		{name: "a filter that is not configured", build: func(b *bench) {
			b.repo()
			b.files(".gitattributes", "*.psd filter=lfs diff=lfs merge=lfs -text\n", "a.psd", "x\n")
		}, unsupported: "*"},
		{name: "ident and encodings", build: func(b *bench) {
			b.repo()
			b.files(".gitattributes", "*.id ident\n*.u16 working-tree-encoding=UTF-16LE\n", "a.id", "$Id$\n", "b.u16", "h\x00i\x00")
		}, unsupported: "*"},
		{name: "attributes that change nothing", build: func(b *bench) {
			b.repo()
			b.files(".gitattributes", "*.go diff=golang\n*.bin binary\n*.x export-ignore\n/v linguist-vendored\n", "a.go", "package a\n", "b.bin", "\x00", "c.x", "1")
		}, unsupported: "git.add git.commit git.status"},
		{name: "file modes do not count", build: func(b *bench) {
			b.repo()
			b.git("repo", "config", "core.fileMode", "false")
			b.chmod("README.md", 0o755)
			b.files("x", "1\n")
			b.chmod("x", 0o755)
		}},
		{name: "hidden by flags of the index", build: func(b *bench) {
			b.repo()
			b.files("assumed", "1\n", "skipped", "1\n", "intended", "1\n")
			b.git("repo", "add", "assumed", "skipped")
			b.git("repo", "commit", "-q", "-m", "second")
			b.git("repo", "update-index", "--assume-unchanged", "assumed")
			b.git("repo", "update-index", "--skip-worktree", "skipped")
			b.git("repo", "add", "--intent-to-add", "intended")
			b.files("assumed", "2\n", "skipped", "2\n")
		}, unsupported: "*"},
		{name: "sparse checkout", build: func(b *bench) {
			b.repo()
			b.files("in/a", "1\n", "out/b", "1\n")
			b.commitAll("second")
			b.git("repo", "sparse-checkout", "set", "--cone", "in")
			b.files("in/a", "2\n")
		}, unsupported: "*"},
		{name: "split index", build: func(b *bench) {
			b.repo()
			b.git("repo", "update-index", "--split-index")
			b.files("a", "1\n")
		}, unsupported: "*"},
		{name: "borrowed objects", inPlace: true, build: func(b *bench) {
			b.merges()
			b.ok(os.Rename(filepath.Join(b.dir, "repo"), filepath.Join(b.dir, "lender")))
			b.git(".", "clone", "-q", "--shared", "--template=", filepath.Join(b.dir, "lender"), "repo")
			b.files("s", "1\n")
		}, unsupported: "*"},
		{name: "ids of sha256", build: func(b *bench) {
			b.files("a", "1\n")
			b.git("repo", "init", "-q", "-b", "main", "--object-format=sha256")
			b.commitAll("first")
			b.files("a", "2\n")
		}, unsupported: "*"},
		{name: "a cherry-pick that stopped", build: func(b *bench) {
			b.conflict()
			b.git("repo", "merge", "--abort")
			_ = rawGit(filepath.Join(b.dir, "repo"), "cherry-pick", "side").Run() // conflicts
		}, unsupported: "git.status git.add git.commit"},
		{name: "a rebase that stopped", build: func(b *bench) {
			b.conflict()
			b.git("repo", "merge", "--abort")
			_ = rawGit(filepath.Join(b.dir, "repo"), "rebase", "-q", "side").Run() // conflicts
		}, unsupported: "git.status git.add git.commit", writes: []step{{"git.add", input{"all": true}}}, raw: reset("add", "-A")},
		{name: "a bisection", build: func(b *bench) {
			b.merges()
			b.git("repo", "bisect", "start", "main", "a")
		}, writes: []step{}, raw: nothing},
		{name: "written in the same instant", inPlace: true, build: func(b *bench) {
			b.repo()
			b.files("racy", "1\n", "racy2", "1\n")
			b.commitAll("second")
			b.files("racy", "2\n", "racy2", "2\n") // same size, as soon as can be
		}},
		{name: "two thousand files", build: func(b *bench) {
			for i := range 2100 {
				b.files(fmt.Sprintf("d%02d/f%04d", i%37, i), fmt.Sprint(i))
			}
			b.git("repo", "init", "-q", "-b", "main")
		}, writes: []step{}, raw: nothing},
		{name: "messages as they come", build: func(b *bench) {
			b.repo()
			for _, message := range []string{"subject\n\n\n\nbody after blanks\n\n# a hash\n", "  lead\ntwo lines\n\nbody\n\nSigned-off-by: A <a@b>", "crlf\r\n\r\nbody\r\n", "ünïcode ☃\n\n\ttab", "x"} {
				cmd := rawGit(filepath.Join(b.dir, "repo"), "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-F", "-")
				cmd.Stdin = strings.NewReader(message)
				b.ok(cmd.Run())
			}
			b.git("repo", "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-m", "caf\xe9")
			b.git("repo", "-c", "user.name=x", "commit", "-q", "--allow-empty", "--author=Ünï Cödé <ü@example.com>", "--date=2001-02-03T04:05:06+0530", "-m", "other author")
		}, reads: []step{{"git.log", input{"author": "cödé"}}, {"git.log", input{"grep": "SUBJECT"}}, {"git.log", input{"since": "2026-01-31T12:00:00Z", "max_count": 3}}, {"git.log", input{"until": "2026-01-31T11:59:59Z"}}}},
		{name: "named paths", build: func(b *bench) {
			b.repo()
			b.files("a/x", "1\n", "a/y", "1\n", "b", "1\n")
			b.commitAll("second")
			b.files("a/x", "2\n", "a/z", "1\n", "b", "2\n", "c", "1\n")
			b.remove("a/y")
		}, writes: []step{
			{"git.add", input{"paths": []string{"a", "c"}}}, {"git.add", input{"paths": []string{"nope"}}},
			{"git.commit", input{"message": "some", "author": ada(), "date": fixedDate}}, {"git.add", input{"update": true}},
		}, raw: func(b *bench) {
			b.git("repo", "add", "-A", "a", "c")
			b.git("repo", "commit", "-q", "-m", "some")
			b.git("repo", "add", "-u")
		}},
		{name: "ignored paths by name", build: func(b *bench) {
			b.repo()
			b.files(".gitignore", "*.log\n", "a.log", "1\n", "b", "1\n")
		}, writes: []step{{"git.add", input{"paths": []string{"a.log"}}}, {"git.add", input{"paths": []string{"a.log"}, "force": true}}},
			raw: func(b *bench) { b.git("repo", "add", "-f", "a.log") }},
		{name: "amending", build: func(b *bench) {
			b.merges()
			b.files("a", "2\n")
		}, writes: []step{{"git.commit", input{"message": "amended", "all": true, "amend": true, "author": ada(), "date": fixedDate}}},
			raw: func(b *bench) { b.git("repo", "commit", "-q", "-a", "--amend", "--reset-author", "-m", "amended") }},
		{name: "messages to commit", build: func(b *bench) { b.repo() }, writes: []step{
			{"git.commit", input{"message": "empty", "allow_empty": true, "author": ada(), "date": fixedDate}},
			{"git.commit", input{"message": "subject\n\nbody with ünïcode", "trailers": map[string]string{"Fixes": "1"}, "allow_empty": true, "author": ada(), "date": "2026-01-31T17:30:00+05:30"}},
			{"git.commit", input{"message": "nothing", "author": ada(), "date": fixedDate}},
			{"git.commit", input{"message": "moved", "allow_empty": true, "expect_head": strings.Repeat("1", 40)}},
		}, raw: func(b *bench) {
			b.git("repo", "commit", "-q", "--allow-empty", "-m", "empty")
			cmd := rawGit(filepath.Join(b.dir, "repo"), "commit", "-q", "--allow-empty", "-m", "subject\n\nbody with ünïcode\n\nFixes: 1")
			cmd.Env = append(cmd.Env, "GIT_AUTHOR_DATE=2026-01-31T17:30:00+05:30", "GIT_COMMITTER_DATE=2026-01-31T17:30:00+05:30")
			b.ok(cmd.Run())
		}},
		{name: "branches", build: func(b *bench) { b.merges() }, writes: []step{
			{"git.branch", input{"action": "create", "name": "new/one", "start_point": "a"}}, {"git.branch", input{"action": "create", "name": "new/one"}},
			{"git.branch", input{"action": "create", "name": "new"}},
			{"git.branch", input{"action": "create", "name": "x", "start_point": "nope"}},
		}, raw: func(b *bench) {
			b.git("repo", "branch", "-q", "new/one", "a")
		}},
		{name: "a branch is deleted", build: func(b *bench) { b.merges() }, unsupported: "git.branch", writes: []step{
			{"git.branch", input{"action": "delete", "name": "c"}}, {"git.branch", input{"action": "delete", "name": "nope"}}, {"git.branch", input{"action": "delete", "name": "main"}},
		}, raw: func(b *bench) { b.git("repo", "branch", "-q", "-d", "c") }},
		{name: "a branch gets another name", build: func(b *bench) { b.merges() }, unsupported: "git.branch", writes: []step{
			{"git.branch", input{"action": "rename", "name": "b", "new_name": "bee"}},
		}, raw: func(b *bench) { b.git("repo", "branch", "-q", "-m", "b", "bee") }},
	}
}

// ada is the author of everything.
func ada() map[string]string { return map[string]string{"name": "Ada", "email": "ada@example.com"} }
