package git_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/skill"
)

// shared makes a bare repository with one commit, and a clone of it named copy.
func (b *bench) shared() (head string) {
	b.t.Helper()
	b.env.Grants = skill.Grants{All: true}
	head = b.repo()
	b.git(".", "clone", "-q", "--bare", "repo", "bare.git")
	b.git("repo", "remote", "add", "origin", filepath.Join(b.dir, "bare.git"))
	b.must("git.clone", input{"url": "bare.git", "dest": "copy"})
	return head
}

// upstream commits to the bare repository by way of repo.
func (b *bench) upstream(file string) string {
	b.t.Helper()
	b.write("repo/"+file, file+"\n")
	id := b.commitAll(file)
	b.git("repo", "push", "-q", "-f", "origin", "HEAD")
	return id
}

func TestFetch(t *testing.T) {
	b := newBench(t)
	first := b.shared()
	if data := b.must("git.fetch", input{"repo": "copy"}); data["count"] != 0.0 {
		t.Errorf("git.fetch of nothing new = %v", data)
	}
	second := b.upstream("second")
	b.git("repo", "tag", "v1")
	b.git("repo", "push", "-q", "origin", "v1", "main:refs/heads/other", "main:refs/heads/gone")
	data := b.must("git.fetch", input{"repo": "copy"})
	want := []string{"refs/remotes/origin/gone", "refs/remotes/origin/main", "refs/remotes/origin/other"}
	if got := names(t, data["updated"], "ref"); !slices.Equal(got, want) {
		t.Errorf("git.fetch = %v, want %v and no tag", got, want)
	}
	if at(t, data, "updated", 1, "old") != first || at(t, data, "updated", 1, "new") != second || at(t, data, "updated", 1, "forced") != false || at(t, data, "updated", 0, "old") != "" {
		t.Errorf("git.fetch = %v", data)
	}
	if b.git("copy", "rev-parse", "HEAD") != first {
		t.Error("a fetch moved HEAD")
	}
	b.git("repo", "reset", "-q", "--hard", first)
	third := b.upstream("third")
	b.git("repo", "push", "-q", "origin", ":gone")
	data = b.must("git.fetch", input{"repo": "copy", "refspecs": []string{"main"}})
	if len(data["updated"].([]any)) != 1 || at(t, data, "updated", 0, "new") != third || at(t, data, "updated", 0, "forced") != true {
		t.Errorf("git.fetch of a rewritten branch = %v", data)
	}
	data = b.must("git.fetch", input{"repo": "copy", "prune": true, "tags": true})
	if got := names(t, data["updated"], "ref"); !slices.Equal(got, []string{"refs/remotes/origin/gone", "refs/tags/v1"}) || at(t, data, "updated", 0, "new") != "" {
		t.Errorf("git.fetch with prune and tags = %v", data)
	}
	b.fails("git.fetch", input{"repo": "copy", "refspecs": []string{"nope"}}, 3, "ref_not_found")
	b.fails("git.fetch", input{"repo": "copy", "remote": "nope"}, 3, "not_found")
	b.fails("git.fetch", input{"repo": "copy", "remote": "--upload-pack=x"}, 7, "unsafe")
	for _, spec := range []string{"--upload-pack=x", "refs/heads/main:refs/stash", "refs/heads/main:HEAD", "a:b", "refs/heads/*:refs/heads/x", "+refs/heads/main:refs/../config"} {
		b.fails("git.fetch", input{"repo": "copy", "refspecs": []string{spec}}, 7, "unsafe")
	}
	b.fails("git.fetch", input{"repo": "copy", "refspecs": []string{"+refs/heads/main:refs/heads/main"}}, 1, "in_use")
}

func TestFetchDeepens(t *testing.T) {
	b := newBench(t)
	b.shared()
	for _, file := range []string{"a", "b", "c"} {
		b.upstream(file)
	}
	cloned := b.must("git.clone", input{"url": "bare.git", "dest": "thin", "depth": 1})
	if cloned["shallow"] != true || b.git("thin", "rev-list", "--count", "HEAD") != "1" {
		t.Errorf("git.clone = %v", cloned)
	}
	b.must("git.fetch", input{"repo": "thin", "depth": 2})
	if n := b.git("thin", "rev-list", "--count", "HEAD"); n != "2" {
		t.Errorf("%s commits, want 2", n)
	}
	b.must("git.fetch", input{"repo": "thin", "unshallow": true})
	if n := b.git("thin", "rev-list", "--count", "HEAD"); n != "4" {
		t.Errorf("%s commits, want all 4", n)
	}
	b.fails("git.fetch", input{"repo": "thin", "unshallow": true}, 1, "not_shallow")
}

func TestClonesTakeWhatIsAskedFor(t *testing.T) {
	b := newBench(t)
	b.shared()
	b.upstream("second")
	b.git("repo", "tag", "v1")
	b.git("repo", "branch", "other", "HEAD~1")
	b.git("repo", "push", "-q", "origin", "v1", "other")
	for name, tc := range map[string]struct {
		in   input
		refs []string
	}{
		"all":             {input{}, []string{"refs/remotes/origin/main", "refs/remotes/origin/other"}},
		"tags":            {input{"tags": true}, []string{"refs/remotes/origin/main", "refs/remotes/origin/other", "refs/tags/v1"}},
		"single":          {input{"single_branch": true}, []string{"refs/remotes/origin/main"}},
		"single, other":   {input{"single_branch": true, "branch": "other"}, []string{"refs/remotes/origin/other"}},
		"shallow":         {input{"depth": 1}, []string{"refs/remotes/origin/main"}},
		"shallow, all":    {input{"depth": 1, "single_branch": false}, []string{"refs/remotes/origin/main", "refs/remotes/origin/other"}},
		"a tag":           {input{"ref": "v1", "single_branch": true}, []string{"refs/remotes/origin/main", "refs/tags/v1"}},
		"a tag, shallow":  {input{"ref": "v1", "depth": 1}, []string{"refs/remotes/origin/main", "refs/tags/v1"}},
		"a branch as ref": {input{"ref": "other", "single_branch": true}, []string{"refs/remotes/origin/main", "refs/remotes/origin/other"}},
		"partial":         {input{"filter": "blob:none"}, []string{"refs/remotes/origin/main", "refs/remotes/origin/other"}},
		"borrowed":        {input{"reference": "repo"}, []string{"refs/remotes/origin/main", "refs/remotes/origin/other"}},
	} {
		t.Run(name, func(t *testing.T) {
			dest := "clones/" + strings.ReplaceAll(name, " ", "-")
			in := input{"url": "bare.git", "dest": dest}
			for k, v := range tc.in {
				in[k] = v
			}
			data := b.must("git.clone", in)
			refs := strings.Fields(b.git(dest, "for-each-ref", "--format=%(refname)", "refs/remotes", "refs/tags"))
			refs = slices.DeleteFunc(refs, func(r string) bool { return r == "refs/remotes/origin/HEAD" })
			if !slices.Equal(refs, tc.refs) {
				t.Errorf("git.clone %v has %v, want %v", tc.in, refs, tc.refs)
			}
			if data["files"] == 0.0 || data["bytes"] == 0.0 && name != "borrowed" || b.git(dest, "status", "--porcelain") != "" {
				t.Errorf("git.clone = %v", data)
			}
		})
	}
	for name, limits := range map[string]input{
		"objects": {"max_objects": 2}, "files": {"max_files": 1}, "object": {"max_object_bytes": 2}, "path": {"max_path_len": 3}, "pack": {"max_pack_bytes": 10},
	} {
		b.fails("git.clone", input{"url": "bare.git", "dest": "limited-" + name, "limits": limits}, 9, "too_large")
	}
	b.must("git.clone", input{"url": "bare.git", "dest": "within", "limits": input{"max_files": 10, "max_objects": 1000, "max_path_len": 255}})
	b.fails("git.clone", input{"url": "bare.git", "dest": "x", "filter": "--upload-pack=x"}, 7, "unsafe")
	b.fails("git.clone", input{"url": "bare.git", "dest": "x", "reference": "/etc"}, 7, "unsafe_path")
}

func TestDirectPush(t *testing.T) {
	b := newBench(t)
	first := b.shared()
	b.must("git.checkout", input{"repo": "copy", "ref": "work", "create": true})
	b.write("copy/a", "1")
	second := b.must("git.commit", input{"repo": "copy", "all": true, "message": "second"})["commit"].(string)
	push := func(more input) input {
		in := input{"repo": "copy", "mode": "direct"}
		for k, v := range more {
			in[k] = v
		}
		return in
	}
	if dry := b.must("git.push", push(input{"dry_run": true})); at(t, dry, "pushed", 0, "status") != "ok" {
		t.Errorf("git.push with dry_run = %v", dry)
	}
	if out := b.git("bare.git", "for-each-ref", "refs/heads/work"); out != "" {
		t.Errorf("a dry run pushed: %s", out)
	}
	b.must("git.push", push(input{"set_upstream": true}))
	if got := b.git("copy", "rev-parse", "--abbrev-ref", "work@{upstream}"); got != "origin/work" {
		t.Errorf("the upstream is %s", got)
	}
	if status := b.must("git.status", input{"repo": "copy"}); status["upstream"] != "origin/work" || status["ahead"] != 0.0 {
		t.Errorf("git.status = %v", status)
	}
	if again := b.must("git.push", push(nil)); at(t, again, "pushed", 0, "status") != "up_to_date" {
		t.Errorf("git.push again = %v", again)
	}
	b.must("git.commit", input{"repo": "copy", "amend": true, "message": "rewritten"})
	fault := b.fails("git.push", push(nil), 1, "stale")
	if fault.Hint == "" {
		t.Errorf("%+v", fault)
	}
	b.must("git.push", push(input{"force": "with-lease"}))
	b.git("bare.git", "update-ref", "refs/heads/work", first)
	b.must("git.commit", input{"repo": "copy", "amend": true, "message": "rewritten again"})
	b.fails("git.push", push(input{"force": "with-lease"}), 1, "stale")
	b.git("copy", "tag", "v2")
	data := b.must("git.push", push(input{"refspecs": []string{"v2", second + ":refs/heads/older", "HEAD:newer"}}))
	if got := names(t, data["pushed"], "ref"); !slices.Equal(got, []string{"refs/tags/v2", "refs/heads/older", "refs/heads/newer"}) {
		t.Errorf("git.push with refspecs = %v", data)
	}
	if b.git("bare.git", "rev-parse", "older") != second {
		t.Error("older is not where it was pushed to")
	}
	for _, spec := range []string{"--force", "+v2", "v2:refs/stash", ":older", "HEAD", "v2:refs/heads/../x"} {
		if o := b.call("git.push", push(input{"refspecs": []string{spec}})); o.exit != 7 && o.exit != 2 {
			t.Errorf("refspec %q: %s", spec, o.stdout)
		}
	}
	b.fails("git.push", push(input{"refspecs": []string{"nope"}}), 3, "ref_not_found")
	b.fails("git.push", push(input{"refspecs": []string{"v2"}, "branch": "x"}), 2, "bad_input")
	b.fails("git.push", input{"repo": "copy", "force": "with-lease"}, 2, "bad_input") // of a request
	b.git("bare.git", "config", "receive.denyDeletes", "true")
	b.write("bare.git/hooks/pre-receive", "#!/bin/sh\necho no >&2\nexit 1\n")
	b.must("git.push", push(input{"branch": "another"})) // no hook of the target's runs that is not executable
}
