package git_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// trap is a bench beside which there is a folder that nobody may touch, and a program that nobody may run.
type trap struct {
	*bench
	outside string // holds the file secret
	canary  string // leaves a mark when it is run
	before  string
}

func newTrap(t *testing.T, engine string) *trap {
	t.Helper()
	b := newBench(t)
	b.engine = engine
	outside, err := filepath.EvalSymlinks(t.TempDir())
	b.ok(err)
	x := &trap{bench: b, outside: outside, canary: filepath.Join(outside, "canary")}
	b.ok(
		os.WriteFile(filepath.Join(outside, "secret"), []byte("mine\n"), 0o644),
		os.WriteFile(x.canary, []byte("#!/bin/sh\necho \"$0 $*\" >>'"+outside+"/was-run'\ncat\n"), 0o755),
	)
	x.before = benchIn(t, outside).listing()
	return x
}

// sprung fails the test if the program was run or anything outside changed.
func (x *trap) sprung(after string) {
	x.t.Helper()
	if got := benchIn(x.t, x.outside).listing(); got != x.before {
		said, _ := os.ReadFile(filepath.Join(x.outside, "was-run"))
		x.t.Fatalf("after %s what lies outside is\n%snot\n%s%s", after, got, x.before, said)
	}
}

// everyVerb is one call of each verb, in an order in which all have something to do.
func everyVerb() []step {
	const patch = "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-hello\n+patched\n"
	return []step{
		{"git.status", input{"ignored": true, "renames": true}}, {"git.diff", input{}}, {"git.diff", input{"from": "HEAD", "renames": true, "binary": true}},
		{"git.stash", input{"include_untracked": true}}, {"git.stash", input{"action": "pop"}}, {"git.stash", input{"action": "list"}},
		{"git.add", input{"all": true}}, {"git.diff", input{"staged": true}}, {"git.commit", input{"message": "by a skill"}}, {"git.commit", input{"message": "by a skill", "amend": true}},
		{"git.log", input{"stats": true}}, {"git.show", input{}}, {"git.show", input{"path": "README.md"}}, {"git.rev_parse", input{"refs": []string{"HEAD", "main"}}},
		{"git.merge_base", input{"commits": []string{"HEAD", "main"}}}, {"git.apply", input{"patch": patch}}, {"git.apply", input{"patch": patch, "three_way": true, "reverse": true}},
		{"git.restore", input{"paths": []string{"."}, "source": "HEAD", "staged": true, "worktree": true}}, {"git.restore", input{"paths": []string{"."}}},
		{"git.branch", input{"action": "create", "name": "made"}}, {"git.branch", input{}}, {"git.checkout", input{"ref": "other"}}, {"git.checkout", input{"ref": "main", "force": true}},
		{"git.checkout", input{"paths": []string{"README.md"}, "ref": "other"}}, {"git.worktree", input{"action": "add", "dest": "linked", "branch": "linked"}}, {"git.worktree", input{}},
		{"git.worktree", input{"action": "remove", "dest": "linked", "force": true}}, {"git.fetch", input{}}, {"git.push", input{"base": "other", "branch": "made"}},
		{"git.push", input{"mode": "direct", "branch": "made"}}, {"git.clone", input{"url": "repo", "dest": "copy"}},
	}
}

// victim makes a repository with a second branch and a remote, and work that is not committed.
func (x *trap) victim() {
	x.t.Helper()
	x.env.Grants.All, x.env.Grants.Except = true, nil
	x.repo()
	x.git(".", "clone", "-q", "--bare", "--template=", "repo", "origin.git")
	x.git("repo", "remote", "add", "origin", filepath.Join(x.dir, "origin.git"))
	x.git("repo", "checkout", "-q", "-b", "other")
	x.files("README.md", "other\n", "more", "1\n")
	x.commitAll("other")
	x.git("repo", "checkout", "-q", "main")
	x.files("README.md", "edited\n", "untracked", "1\n")
}

func onBoth(t *testing.T, f func(t *testing.T, engine string)) {
	for _, name := range []string{engine.System, engine.Native} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, name)
		})
	}
}

// Of all that a repository can say about programs to run nothing is run, by any verb.
func TestNoProgramOfARepositoryIsRun(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		x := newTrap(t, engine)
		x.victim()
		for _, hook := range []string{
			"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout",
			"post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite",
			"fsmonitor-watchman", "post-index-change",
		} {
			for _, dir := range []string{"repo/.git/hooks", "origin.git/hooks", "repo/hooks"} {
				x.write(dir+"/"+hook, "#!/bin/sh\n"+x.canary+"\n")
				x.ok(os.Chmod(filepath.Join(x.dir, dir, hook), 0o755))
			}
		}
		config := "[alias]\n"
		for _, verb := range []string{"status", "add", "commit", "log", "show", "diff", "apply", "stash", "restore", "checkout", "branch", "rev-parse", "cat-file", "fetch", "push"} {
			config += "\t" + verb + " = !" + x.canary + "\n"
		}
		for _, key := range [][3]string{
			{"core", "", "fsmonitor"}, {"core", "", "hooksPath=repo/hooks"}, {"core", "", "sshCommand"}, {"core", "", "editor"}, {"core", "", "pager"}, {"core", "", "askPass"},
			{"sequence", "", "editor"}, {"credential", "", "helper=!"}, {"gpg", "", "program"}, {"gpg", "ssh", "program"}, {"commit", "", "gpgSign=true"}, {"tag", "", "gpgSign=true"},
			{"log", "", "showSignature=true"}, {"push", "", "gpgSign=true"}, {"uploadpack", "", "packObjectsHook"}, {"pager", "", "log"}, {"pager", "", "diff"}, {"pager", "", "status"},
			{"submodule", "sub", "update=!"}, {"trailer", "x", "command"}, {"trailer", "x", "cmd"}, {"interactive", "", "diffFilter"}, {"difftool", "x", "cmd"}, {"browser", "x", "cmd"},
			{"init", "", "templateDir=" + x.outside}, {"core", "", "worktree=" + x.outside}, {"core", "", "attributesFile=" + x.outside + "/secret"}, {"core", "", "excludesFile=" + x.outside + "/secret"},
			{"diff", "", "orderFile=" + x.outside + "/secret"}, {"protocol", "ext", "allow=always"}, {"protocol", "", "allow=always"}, {"hook", "x", "event=pre-commit"},
			{"merge", "", "tool"}, {"mergetool", "x", "cmd"}, {"gc", "", "auto=1"}, {"maintenance", "", "auto=true"}, {"core", "", "fsmonitorHookVersion=1"}, {"submodule", "", "recurse=true"},
			{"stash", "", "showPatch=true"}, {"ssh", "", "variant"}, {"format", "", "pretty=%(trailers)"}, {"receive", "", "procReceiveRefs=refs"},
		} {
			section := key[0]
			if key[1] != "" {
				section += ` "` + key[1] + `"`
			}
			name, value, given := strings.Cut(key[2], "=")
			if value = strings.TrimSuffix(value, "!") + map[bool]string{true: "", false: x.canary}[given && !strings.HasSuffix(value, "!")]; strings.HasSuffix(key[2], "!") {
				value = "!" + x.canary
			}
			config += fmt.Sprintf("[%s]\n\t%s = %s\n", section, name, value)
		}
		for _, file := range []string{"repo/.git/config", "origin.git/config"} {
			x.write(file, x.read(file)+config)
		}
		x.files(".gitattributes", "* filter=x diff=x merge=x\n")
		x.write("repo/.git/info/attributes", "* filter=x diff=x merge=x\n")
		refused := 0
		for _, step := range everyVerb() {
			o := x.call(step.skill, step.in)
			x.sprung(step.skill)
			if o.exit == protocol.ExitInternal {
				t.Errorf("%s %v = %+v", step.skill, step.in, o.result.Error)
			}
			if o.exit != 0 {
				refused++
				t.Logf("%s %v: exit %d, %+v", step.skill, step.in, o.exit, o.result.Error)
			}
		}
		if engine == "system" && refused > 6 {
			t.Errorf("%d calls failed: too few of them were put to the test", refused)
		}
	})
}

// A key that no override reaches is refused by every verb, before anything is started.
func TestKeysThatRunProgramsAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		x := newTrap(t, engine)
		x.victim()
		plain := x.read("repo/.git/config")
		for _, pattern := range gitconfig.Executable() {
			key := strings.ReplaceAll(pattern, "*", "a.b")
			x.write("repo/.git/config", plain)
			x.git("repo", "config", key, x.canary)
			for _, step := range everyVerb() {
				if step.skill == "git.clone" || step.in["action"] != nil {
					continue
				}
				o := x.call(step.skill, step.in)
				if o.exit != protocol.ExitUnsafe || o.code() != "unsafe_config" {
					t.Errorf("with %s %s = exit %d, %+v", key, step.skill, o.exit, o.result.Error)
				}
			}
			x.sprung(key)
		}
	})
}

// A submodule's own configuration is another repository's: nobody has judged it, and git is not run there.
func TestSubmodulesRunNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		x := newTrap(t, engine)
		x.victim()
		x.write("other/x", "1\n")
		x.git("other", "init", "-q", "-b", "main")
		x.git("other", "add", "-A")
		x.git("other", "commit", "-q", "-m", "other")
		x.git("repo", "-c", "protocol.file.allow=always", "submodule", "add", "-q", filepath.Join(x.dir, "other"), "sub")
		x.git("repo", "commit", "-q", "-m", "submodule")
		for _, key := range []string{"filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv", "diff.x.command", "core.fsmonitor", "diff.external", "core.sshCommand"} {
			x.git("repo/sub", "config", key, x.canary)
		}
		x.write("repo/sub/.gitattributes", "* filter=x diff=x\n")
		x.write("repo/sub/x", "2\n")
		x.git("repo", "config", "submodule.sub.ignore", "none")
		x.git("repo", "config", "submodule.recurse", "true")
		x.git("repo", "config", "submodule.sub.update", "!"+x.canary)
		x.git("repo", "config", "status.submoduleSummary", "true")
		x.git("repo", "config", "diff.submodule", "diff")
		for _, step := range everyVerb() {
			o := x.call(step.skill, step.in)
			x.sprung(step.skill)
			if o.exit == protocol.ExitInternal {
				t.Errorf("%s %v = %+v", step.skill, step.in, o.result.Error)
			}
		}
	})
}

// tree writes a tree with one entry of any name, and a commit with it.
func (x *trap) tree(ref, mode, name, id string) {
	x.t.Helper()
	raw := []byte(mode + " " + name + "\x00")
	for i := 0; i < len(id); i += 2 {
		var b byte
		_, err := fmt.Sscanf(id[i:i+2], "%02x", &b)
		x.ok(err)
		raw = append(raw, b)
	}
	cmd := rawGit(filepath.Join(x.dir, "repo"), "hash-object", "-t", "tree", "-w", "--stdin", "--literally")
	cmd.Stdin = bytes.NewReader(raw)
	out, err := cmd.Output()
	x.ok(err)
	commit := x.git("repo", "commit-tree", "-m", "hostile", strings.TrimSpace(string(out)))
	x.git("repo", "update-ref", ref, commit)
}

// Names in trees that lead out, or into .git under one of its names, are written by no verb that writes a tree.
func TestHostileTrees(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		x := newTrap(t, engine)
		x.victim()
		x.git("repo", "reset", "-q", "--hard")
		x.git("repo", "clean", "-q", "-f")
		evil := x.git("repo", "hash-object", "-w", x.canary)
		inner := func(name string) string {
			cmd := rawGit(filepath.Join(x.dir, "repo"), "mktree")
			cmd.Stdin = strings.NewReader("100755 blob " + evil + "\t" + name + "\n")
			out, err := cmd.Output()
			x.ok(err)
			return strings.TrimSpace(string(out))
		}
		hooks := inner("pre-commit")
		// The trees of links: a link, and a folder of the same name with a file in it, in two commits.
		rel, err := filepath.Rel(filepath.Join(x.dir, "repo"), x.outside)
		x.ok(err)
		cmd := rawGit(filepath.Join(x.dir, "repo"), "hash-object", "-w", "--stdin")
		cmd.Stdin = strings.NewReader(rel)
		out, err := cmd.Output()
		x.ok(err)
		target := strings.TrimSpace(string(out))
		trees := map[string][3]string{
			"dotgit": {"40000", ".git", hooks}, "upper": {"40000", ".GIT", hooks}, "short": {"40000", "git~1", hooks}, "zero-width": {"40000", ".g\u200cit", hooks},
			"dotdot": {"40000", "..", hooks}, "dot": {"40000", ".", hooks}, "slash": {"100755", "../pwned", evil}, "deep": {"100755", ".git/hooks/pre-commit", evil},
			"absolute": {"100755", x.outside + "/pwned", evil}, "file-dotgit": {"100644", ".git", evil}, "link-dotgit": {"120000", ".git", target}, "trailing": {"40000", ".git ", hooks},
			"stream": {"40000", ".git::$INDEX_ALLOCATION", hooks}, "backslash": {"100755", `..\pwned`, evil}, "modules": {"120000", ".gitmodules", target},
			"link": {"120000", "door", target}, "behind": {"40000", "door", inner("pwned")}, "runtime": {"40000", ".lattice", hooks},
		}
		config := x.read("repo/.git/config")
		for name, tree := range trees {
			x.tree("refs/heads/"+name, tree[0], tree[1], tree[2])
		}
		for name := range trees {
			for _, step := range []step{
				{"git.checkout", input{"ref": name}}, {"git.checkout", input{"ref": name, "force": true}}, {"git.restore", input{"paths": []string{"."}, "source": name, "staged": true, "worktree": true}},
				{"git.checkout", input{"ref": name, "paths": []string{"."}}}, {"git.worktree", input{"action": "add", "dest": "trees/" + name, "ref": name}},
				{"git.clone", input{"url": "repo", "dest": "clones/" + name, "branch": name}}, {"git.checkout", input{"ref": "link", "force": true}}, {"git.checkout", input{"ref": "behind", "force": true}},
				{"git.diff", input{"from": "main", "to": name}}, {"git.show", input{"ref": name}}, {"git.add", input{"all": true}}, {"git.stash", input{"include_untracked": true}},
			} {
				o := x.call(step.skill, step.in)
				x.sprung(name + ": " + step.skill)
				if o.exit == protocol.ExitInternal {
					t.Errorf("%s: %s %v = %+v", name, step.skill, step.in, o.result.Error)
				}
			}
			if _, err := os.Stat(filepath.Join(x.dir, "repo/.git/pre-commit")); err == nil || x.read("repo/.git/config") != config && !strings.Contains(x.read("repo/.git/config"), "[branch") {
				t.Fatalf("%s: .git was written", name)
			}
			for _, pwned := range []string{"pwned", "pre-commit", "clones/pwned", "trees/pwned", "clones/pre-commit", "trees/pre-commit"} {
				if _, err := os.Lstat(filepath.Join(x.dir, pwned)); err == nil {
					t.Fatalf("%s: %s was written outside of the repository", name, pwned)
				}
			}
			x.git("repo", "checkout", "-q", "--force", "main")
			x.git("repo", "clean", "-q", "-ffd")
		}
	})
}

// A repository whose own files lie elsewhere, or seem to, is written to by nobody.
func TestRepositoriesThatLeadOutside(t *testing.T) {
	link := func(target string) func(*trap, string) error {
		return func(x *trap, file string) error { return os.Symlink(filepath.Join(x.outside, target), file) }
	}
	text := func(format string) func(*trap, string) error {
		return func(x *trap, file string) error {
			return os.WriteFile(file, []byte(strings.ReplaceAll(format, "OUTSIDE", x.outside)), 0o644)
		}
	}
	move := func(x *trap, file string) error {
		to := filepath.Join(x.outside, "moved")
		err := errors.Join(os.Rename(filepath.Join(x.dir, "kept"), to), os.Symlink(to, file))
		x.before = benchIn(x.t, x.outside).listing()
		return err
	}
	fifo := func(_ *trap, file string) error { return syscall.Mkfifo(file, 0o644) }
	onBoth(t, func(t *testing.T, engine string) {
		victim := newTrap(t, engine)
		victim.victim()
		for _, test := range []struct {
			name, file string
			plant      func(x *trap, file string) error
			refused    bool // by every verb, as unsafe
		}{
			{"the message", ".git/COMMIT_EDITMSG", link("secret"), false},
			{"a message that is not there", ".git/COMMIT_EDITMSG", link("new"), false},
			{"the index", ".git/index", link("secret"), false},
			{"the lock of the index", ".git/index.lock", link("new"), false},
			{"the reflog", ".git/logs/HEAD", link("secret"), false},
			{"a branch", ".git/refs/heads/made", link("new"), false},
			{"the branches", ".git/refs/heads", move, false},
			{"the objects", ".git/objects", move, false},
			{"packed refs", ".git/packed-refs", link("new"), false},
			{"what is excluded", ".git/info/exclude", link("secret"), false},
			{"the head", ".git/HEAD", text("ref: refs/heads/../../../../OUTSIDE/new\n"), false},
			{"a head by path", ".git/HEAD", text("ref: OUTSIDE/new\n"), false},
			{"a branch that stands for a path", ".git/refs/heads/main", text("ref: refs/heads/../../../new\n"), false},
			{"the repository", ".git", move, true},
			{"a file that names it", ".git", text("gitdir: OUTSIDE\n"), true},
			{"the common folder", ".git/commondir", text("OUTSIDE\n"), true},
			{"borrowed objects", ".git/objects/info/alternates", text("OUTSIDE\n"), false},
			{"a FIFO for the message", ".git/COMMIT_EDITMSG", fifo, false},
			{"a FIFO for the head", ".git/HEAD", fifo, true},
			{"a FIFO for the index", ".git/index", fifo, true},
			{"a FIFO for packed refs", ".git/packed-refs", fifo, true},
			{"a FIFO for what is ignored", ".gitignore", fifo, true},
			{"a FIFO for attributes", ".gitattributes", fifo, true},
		} {
			t.Run(test.name, func(t *testing.T) {
				x := newTrap(t, engine)
				x.env.Grants = victim.env.Grants
				x.ok(os.CopyFS(x.dir, os.DirFS(victim.dir)))
				x.git("repo", "remote", "set-url", "origin", filepath.Join(x.dir, "origin.git"))
				file := filepath.Join(x.dir, "repo", test.file)
				if _, err := os.Lstat(file); err == nil {
					x.ok(os.Rename(file, filepath.Join(x.dir, "kept")))
				}
				x.ok(test.plant(x, file))
				called := map[string]bool{"git.clone": true, "git.diff": true, "git.show": true, "git.merge_base": true, "git.worktree": true}
				for _, step := range everyVerb() {
					if called[step.skill] {
						continue // others, or the same with other inputs, reach the same files
					}
					called[step.skill] = true
					step.in["timeout_ms"] = 20_000
					o := x.call(step.skill, step.in)
					x.sprung(step.skill)
					if test.refused && o.code() != "unsafe_path" || o.exit == protocol.ExitInternal || o.exit == protocol.ExitTimeout {
						t.Errorf("%s %v = exit %d, %+v", step.skill, step.in, o.exit, o.result.Error)
					}
				}
			})
		}
	})
}

// Git believes its index. One that names files elsewhere is not written from.
func TestAnIndexThatLeadsOutside(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		for _, version := range []string{"2", "4"} {
			x := newTrap(t, engine)
			x.victim()
			rel, err := filepath.Rel(filepath.Join(x.dir, "repo"), filepath.Join(x.dir, "pwned"))
			x.ok(err)
			honest := strings.Repeat("q", len(rel))
			x.files(honest, "evil\n")
			x.git("repo", "add", honest)
			x.git("repo", "update-index", "--index-version", version)
			x.remove(honest)
			index := []byte(x.read("repo/.git/index"))
			at := bytes.Index(index, []byte(honest))
			if at < 0 {
				t.Fatal("the index does not hold the name as it is")
			}
			copy(index[at:], rel)
			sum := sha1.Sum(index[:len(index)-sha1.Size])
			x.write("repo/.git/index", string(append(index[:len(index)-sha1.Size], sum[:]...)))
			for _, step := range everyVerb() {
				o := x.call(step.skill, step.in)
				x.sprung(step.skill)
				if _, err := os.Lstat(filepath.Join(x.dir, "pwned")); err == nil {
					t.Fatalf("version %s: %s wrote outside of the repository: %+v", version, step.skill, o.result)
				}
			}
		}
	})
}

// An index can have a table of offsets at which the threads of git read the entries. The entries there can be other than those
// that are checked, which are read from the beginning.
func TestAnIndexWithATableOfOtherEntries(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		x := newTrap(t, engine)
		x.victim()
		rel, err := filepath.Rel(filepath.Join(x.dir, "repo"), filepath.Join(x.dir, "pwned"))
		x.ok(err)
		honest := strings.Repeat("q", len(rel))
		x.files(honest, "evil\n")
		x.git("repo", "add", honest)
		x.git("repo", "update-index", "--index-version", "2")
		x.remove(honest)
		index := []byte(x.read("repo/.git/index"))
		big, count, end := binary.BigEndian, binary.BigEndian.Uint32(index[8:]), 12
		for range count {
			end += (62 + int(big.Uint16(index[end+60:])&0xfff) + 8) &^ 7
		}
		var headers []byte
		index = index[:end:end]
		extend := func(name string, data []byte) {
			header := big.AppendUint32([]byte(name), uint32(len(data)))
			headers = append(headers, header...)
			index = append(append(index, header...), data...)
		}
		other := bytes.ReplaceAll(index[12:end], []byte(honest), []byte(rel))
		extend("XYZW", other) // git skips what it does not know
		table := big.AppendUint32(nil, 1)
		table = big.AppendUint32(big.AppendUint32(table, uint32(end+8)), count)
		extend("IEOT", table)
		sum := sha1.Sum(headers)
		extend("EOIE", append(big.AppendUint32(nil, uint32(end)), sum[:]...))
		sum = sha1.Sum(index)
		evil := string(append(index, sum[:]...))
		x.write("repo/.git/index", evil)
		x.git("repo", "config", "index.threads", "4")
		if listed := x.git("repo", "ls-files"); !strings.Contains(listed, rel) {
			t.Fatalf("git itself reads the entries %s, want %s among them", listed, rel)
		}
		for _, step := range everyVerb() {
			x.write("repo/.git/index", evil) // the verb before has written another
			o := x.call(step.skill, step.in)
			x.sprung(step.skill)
			if _, err := os.Lstat(filepath.Join(x.dir, "pwned")); err == nil {
				t.Fatalf("%s wrote outside of the repository: %+v", step.skill, o.result)
			}
		}
	})
}
