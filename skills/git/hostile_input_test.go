package git_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// What looks like an option, a pathspec or a path to elsewhere is refused or is a name like any other.
func TestHostileInputs(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		x := newTrap(t, engine)
		x.victim()
		option := "--output=" + x.outside + "/new"
		exec := "--upload-pack=" + x.canary
		refs := []string{option, exec, "-O" + x.canary, "--exec=" + x.canary, "-", "--", "a\nb", "a\x01b", " ", "main --all", ":/first", "main^{/first}", "--end-of-options", "^main", "a:b", "a*", "a?", "a["}
		for _, ref := range refs {
			for _, step := range []step{
				{"git.diff", input{"from": ref}}, {"git.diff", input{"from": "main", "to": ref}}, {"git.log", input{"ref": ref}}, {"git.log", input{"range": ref + "..main"}},
				{"git.log", input{"range": "main.." + ref}}, {"git.log", input{"cursor": "1~" + ref}}, {"git.show", input{"ref": ref}}, {"git.merge_base", input{"commits": []string{"main", ref}}},
				{"git.rev_parse", input{"refs": []string{ref}}}, {"git.restore", input{"paths": []string{"."}, "source": ref}},
				{"git.checkout", input{"ref": ref, "create": true}}, {"git.checkout", input{"ref": "x", "create": true, "start_point": ref}}, {"git.branch", input{"action": "create", "name": ref}},
				{"git.branch", input{"action": "create", "name": "x", "start_point": ref}}, {"git.branch", input{"action": "delete", "name": ref, "force": true}},
				{"git.branch", input{"action": "rename", "name": "other", "new_name": ref}}, {"git.worktree", input{"action": "add", "dest": "w", "branch": ref}},
				{"git.push", input{"branch": ref}}, {"git.push", input{"base": ref}}, {"git.push", input{"mode": "direct", "remote": ref}}, {"git.fetch", input{"remote": ref}},
				{"git.fetch", input{"refspecs": []string{ref}}}, {"git.clone", input{"url": "repo", "dest": "c", "branch": ref}}, {"git.clone", input{"url": "repo", "dest": "c", "ref": ref}},
			} {
				o := x.call(step.skill, step.in)
				// A range whose one side is empty means HEAD, and a: alone names the top folder of a.
				if fine := step.skill == "git.show" && ref == "a:b"; o.exit != protocol.ExitUnsafe && o.exit != protocol.ExitBadInput && !fine {
					t.Errorf("%s %q = exit %d, %+v", step.skill, step.in, o.exit, o.result.Error)
				}
			}
			x.sprung(ref)
		}
		for _, path := range []string{"../secret", "/etc/passwd", ".git/config", ".GIT/config", "a/../../x", "a\x00b", ""} {
			for _, skill := range []string{"git.status", "git.diff", "git.log", "git.restore", "git.stash", "git.add", "git.checkout", "git.commit"} {
				o := x.call(skill, input{"paths": []string{path}, "message": "x"})
				if skill != "git.commit" && skill != "git.stash" {
					o = x.call(skill, input{"paths": []string{path}})
				}
				if o.exit != protocol.ExitUnsafe && o.exit != protocol.ExitBadInput {
					t.Errorf("%s of %q = exit %d, %+v", skill, path, o.exit, o.result.Error)
				}
			}
		}
		for _, path := range []string{option, "-f", ":(exclude)x", ":(top)x", ":/", "*"} {
			for _, skill := range []string{"git.status", "git.diff", "git.log"} {
				if data := x.call(skill, input{"paths": []string{path}}); data.exit == 0 && len(found(data.data(t))) > 0 {
					t.Errorf("%s of %q found %v", skill, path, found(data.data(t)))
				}
			}
			x.sprung(path)
		}
		for _, url := range []string{
			"ext::" + x.canary, "ext::sh -c " + x.canary, "fd::17", exec, "-u" + x.canary, "ssh://-oProxyCommand=" + x.canary + "/x", "-oProxyCommand=" + x.canary + ":x", "file://" + x.outside, x.outside,
			"repo\n", "https://u:p@example.com/x", "transport::address", "../..", "file:///etc", "http://169.254.169.254/x",
		} {
			o := x.call("git.clone", input{"url": url, "dest": "c"})
			x.sprung(url)
			if o.exit != protocol.ExitUnsafe && o.exit != protocol.ExitNotFound {
				t.Errorf("git.clone of %q = exit %d, %+v", url, o.exit, o.result.Error)
			}
			if strings.ContainsAny(url, "\n") {
				continue
			}
			x.git("repo", "config", "remote.origin.url", url)
			for _, step := range []step{{"git.fetch", input{}}, {"git.push", input{"mode": "direct", "branch": "made"}}} {
				o := x.call(step.skill, step.in)
				x.sprung(url)
				if o.exit == 0 || o.exit == protocol.ExitInternal {
					t.Errorf("%s with the remote %q = exit %d, %+v", step.skill, url, o.exit, o.result.Error)
				}
			}
		}
	})
}

// found are the entries, files or commits of an answer.
func found(data map[string]any) []any {
	for _, member := range []string{"entries", "files", "commits"} {
		if list, ok := data[member].([]any); ok {
			return list
		}
	}
	return nil
}

// Patches write inside the repository only, and not through links.
func TestHostilePatches(t *testing.T) {
	x := newTrap(t, "")
	x.victim()
	x.git("repo", "reset", "-q", "--hard")
	x.link(x.outside, "door")
	x.link("sub", "inner")
	x.files("sub/file", "old\n")
	x.commitAll("links")
	made := func(name string) string {
		return "diff --git a/" + name + " b/" + name + "\nnew file mode 100755\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+x\n"
	}
	plain := func(name string) string { return "--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+x\n" }
	var patches []string
	for _, name := range []string{
		"../pwned", "a/../../pwned", ".git/hooks/pre-commit", ".GIT/config", "git~1/config", ".g\u200cit/config", "sub/.git/config", "/etc/pwned", "door/new", "inner/file", "./x", ".git", `..\pwned`, ".git /x", ".git::$INDEX_ALLOCATION/x",
	} {
		patches = append(patches, made(name), plain(name))
	}
	patches = append(patches,
		plain(`x`)[:0]+"--- /dev/null\n+++ \"b/..\\057pwned\"\n@@ -0,0 +1 @@\n+x\n",
		"diff --git a/sub/file b/../pwned\nsimilarity index 100%\nrename from sub/file\nrename to ../pwned\n",
		"diff --git a/../secret b/copy\nsimilarity index 100%\ncopy from ../secret\ncopy to copy\n",
		"diff --git a/evil b/evil\nnew file mode 120000\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+"+x.outside+"\n\\ No newline at end of file\n"+made("evil/new"),
		"diff --git a/.gitmodules b/.gitmodules\nnew file mode 120000\n--- /dev/null\n+++ b/.gitmodules\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
	)
	for _, patch := range patches {
		for _, in := range []input{{}, {"index": false}, {"three_way": true}, {"atomic": false}} {
			in["patch"] = patch
			o := x.call("git.apply", in)
			x.sprung(patch)
			if o.exit != protocol.ExitUnsafe && o.exit != protocol.ExitBadInput {
				t.Errorf("git.apply %v = exit %d, %s", in, o.exit, o.stdout)
			}
		}
	}
	if left := x.git("repo", "status", "--porcelain"); left != "" {
		t.Errorf("refused patches changed %s", left)
	}
	// Another way to the same: names that only appear once folders are stripped, and taking back what was never there.
	o := x.call("git.apply", input{"patch": strings.ReplaceAll(made("x/../../pwned"), "b/x", "b"), "strip": 0})
	if x.sprung("strip"); o.exit == 0 {
		t.Error("a path with .. was patched")
	}
	if slices.ContainsFunc([]string{"pwned", "c/pwned"}, func(name string) bool { _, err := os.Lstat(filepath.Join(x.dir, name)); return err == nil }) {
		t.Error("a file was written outside of the repository")
	}
}
