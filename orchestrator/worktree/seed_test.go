package worktree

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeedLocal(t *testing.T) {
	w := newWorld(t)
	head := w.repository("repo")
	w.in("repo", "remote", "add", "origin", "https://ada:s3cret@example.org/r.git")
	w.in("repo", "checkout", "-q", "-b", "work")
	if err := os.WriteFile(w.path("out.bundle.lock"), []byte("half of it"), 0o600); err != nil { // of a git that was killed
		t.Fatal(err)
	}
	s, err := w.git.Seed(t.Context(), w.path("repo"), SeedOptions{}, w.path("out.bundle"))
	if err != nil {
		t.Fatal(err)
	}
	want := Seeded{RemoteURL: "https://example.org/r.git", Local: true, Path: w.path("repo"), Branch: "work", Head: head, BaseHead: head,
		DefaultBranch: "main", Bundle: w.path("out.bundle"), AuthorName: "Ada Lovelace", AuthorEmail: "ada@example.org"}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("Seed (-want +got):\n%s", d)
	}
	w.in(".", "clone", "-q", s.Bundle, "clone")
	if got := w.in("clone", "rev-parse", "HEAD", "--abbrev-ref", "HEAD"); got != head+"\nwork" {
		t.Errorf("clone of the bundle is at %q, want %s on work", got, head)
	}
}

func TestSeedForms(t *testing.T) {
	w := newWorld(t)
	first := w.repository("repo")
	w.in("repo", "tag", "v1")
	second := w.commitTree("repo", "b.txt", "two\n")
	w.in("repo", "branch", "side", first)
	w.in("repo", "worktree", "add", "-q", "-b", "linked", w.path("linked"))
	w.in(".", "clone", "-q", "--bare", w.path("repo"), "bare.git")
	w.in(".", "clone", "-q", w.path("repo"), "detached")
	w.in("detached", "checkout", "-q", first)
	url := "file://" + w.path("bare.git")
	tests := map[string]struct {
		spec, ref, branch, head string
	}{
		"working tree":         {w.path("repo"), "", "main", second},
		"subdirectory":         {w.path("repo/sub"), "", "main", second},
		"linked worktree":      {w.path("linked"), "", "linked", second},
		"bare":                 {w.path("bare.git"), "", "main", second},
		"detached":             {w.path("detached"), "", "", first},
		"remote-tracking":      {w.path("detached"), "side", "side", first},
		"branch":               {w.path("repo"), "side", "side", first},
		"tag":                  {w.path("repo"), "v1", "", first},
		"commit":               {w.path("repo"), first, "", first},
		"url":                  {url, "", "main", second},
		"url branch":           {url, "side", "side", first},
		"url tag":              {url, "v1", "", first},
		"url commit":           {url, first, "", first},
		"url with full branch": {url, "refs/heads/side", "side", first},
	}
	w.write("repo/sub/x", "x")
	i := 0
	for name, tt := range tests {
		i++
		clone := fmt.Sprintf("clone%d", i)
		t.Run(name, func(t *testing.T) {
			s, err := w.git.Seed(t.Context(), tt.spec, SeedOptions{Ref: tt.ref}, w.path(clone+".bundle"))
			if err != nil {
				t.Fatal(err)
			}
			if s.Branch != tt.branch || s.Head != tt.head || s.BaseHead != tt.head {
				t.Errorf("Seed = %q at %s, want %q at %s", s.Branch, s.Head, tt.branch, tt.head)
			}
			w.in(".", "clone", "-q", s.Bundle, clone)
			if got := w.in(clone, "rev-parse", "HEAD"); got != tt.head {
				t.Errorf("clone is at %s, want %s", got, tt.head)
			}
		})
	}
}

func TestSeedRefusals(t *testing.T) {
	w := newWorld(t)
	w.repository("repo")
	w.commitTree("repo", "b.txt", "two\n")
	w.in(".", "init", "-q", "empty")
	w.in(".", "init", "-q", "--bare", "empty.git")
	w.in(".", "clone", "-q", "--depth=1", "file://"+w.path("repo"), "shallow")
	w.in("shallow", "remote", "remove", "origin")
	w.in(".", "clone", "-q", "--depth=1", "file://"+w.path("repo"), "orphan")
	w.in("orphan", "remote", "set-url", "origin", "file://"+w.path("gone"))
	w.write("plain/file", "x")
	tests := map[string]struct {
		spec string
		opt  SeedOptions
		code string
	}{
		"nothing":            {"", SeedOptions{}, "no_repository"},
		"missing":            {w.path("nowhere"), SeedOptions{}, "not_a_repository"},
		"a file":             {w.path("plain/file"), SeedOptions{}, "not_a_repository"},
		"plain directory":    {w.path("plain"), SeedOptions{}, "not_a_repository"},
		"inside .git":        {w.path("repo/.git/refs"), SeedOptions{}, "not_a_repository"},
		"no commits":         {w.path("empty"), SeedOptions{}, "empty_repository"},
		"no commits, url":    {"file://" + w.path("empty.git"), SeedOptions{}, "empty_repository"},
		"shallow":            {w.path("shallow"), SeedOptions{}, "shallow_repository"},
		"shallow, no answer": {w.path("orphan"), SeedOptions{}, "shallow_repository"},
		"no such ref":        {w.path("repo"), SeedOptions{Ref: "nope"}, "ref_not_found"},
		"no such ref, url":   {"file://" + w.path("repo"), SeedOptions{Ref: "nope"}, "ref_not_found"},
		"option as ref":      {w.path("repo"), SeedOptions{Ref: "--all"}, "ref_not_found"},
		"helper program":     {"ext::sh -c 'touch pwned'", SeedOptions{}, "unsafe_url"},
		"helper scheme":      {"ext://sh", SeedOptions{}, "unsafe_url"},
		"option as host":     {"ssh://-oProxyCommand=x/r", SeedOptions{}, "unsafe_url"},
		"option as url":      {"--upload-pack=x://y", SeedOptions{}, "unsafe_url"},
		"line break":         {"https://example.org/\nr", SeedOptions{}, "unsafe_url"},
		"password":           {"https://ada:s3cret@example.org/r", SeedOptions{}, "credentials_in_url"},
		"token":              {"https://ghp_abc@example.org/r", SeedOptions{}, "credentials_in_url"},
		"no remote there":    {"file://" + w.path("nowhere"), SeedOptions{}, "repository_unreachable"},
		"uncommitted of url": {"file://" + w.path("repo"), SeedOptions{IncludeUncommitted: true}, "no_working_tree"},
		"uncommitted of ref": {w.path("repo"), SeedOptions{IncludeUncommitted: true, Ref: "HEAD~1"}, "ref_not_checked_out"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := w.git.Seed(t.Context(), tt.spec, tt.opt, w.path("out.bundle"))
			wantCode(t, err, tt.code)
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "ghp_") {
				t.Errorf("credentials in %q", err)
			}
		})
	}
}

// A person's own dirty checkout is only read: every byte of .git and of the working tree is as before.
func TestSeedLeavesTheCheckoutAlone(t *testing.T) {
	for _, include := range []bool{false, true} {
		t.Run(fmt.Sprintf("include=%v", include), func(t *testing.T) {
			w := newWorld(t)
			w.repository("repo")
			w.commitTree("repo", "b.txt", "two\n")
			w.write("repo/b.txt", "stashed\n")
			w.in("repo", "stash", "-q")
			w.write("repo/.gitignore", "ignored\n")
			w.write("repo/ignored", "secret\n")
			w.write("repo/a.txt", "staged\n")
			w.in("repo", "add", "a.txt")
			w.write("repo/a.txt", "unstaged\n")
			w.write("repo/new/file.txt", "untracked\n")
			if err := os.Remove(w.path("repo/b.txt")); err != nil {
				t.Fatal(err)
			}
			for _, hook := range []string{"post-index-change", "pre-commit", "post-commit", "reference-transaction", "post-checkout"} {
				w.write("repo/.git/hooks/"+hook, "#!/bin/sh\ntouch "+w.path("hook-ran")+"\n")
				if err := os.Chmod(w.path("repo/.git/hooks/"+hook), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.write("fsmonitor", "#!/bin/sh\ntouch "+w.path("hook-ran")+"\n")
			w.in("repo", "config", "core.fsmonitor", w.path("fsmonitor"))
			base := w.in("repo", "-c", "core.fsmonitor=false", "rev-parse", "HEAD")

			before := w.bytes("repo")
			s, err := w.git.Seed(t.Context(), w.path("repo"), SeedOptions{IncludeUncommitted: include}, w.path("out.bundle"))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(before, w.bytes("repo")); d != "" {
				t.Errorf("Seed changed the repository:\n%s", d)
			}
			if _, err := os.Stat(w.path("hook-ran")); err == nil {
				t.Error("Seed ran a hook of the repository")
			}
			if !s.Dirty || s.BaseHead != base || (s.Head != base) != include {
				t.Errorf("Seed = %+v, want dirty, base %s", s, base)
			}
			w.in(".", "clone", "-q", s.Bundle, "clone")
			got := w.in("clone", "ls-files")
			want := "a.txt\nb.txt"
			if include {
				want = ".gitignore\na.txt\nnew/file.txt"
				if parent := w.in("clone", "rev-parse", "HEAD^"); parent != base {
					t.Errorf("parent of the seeded commit = %s, want %s", parent, base)
				}
				if text := w.in("clone", "show", "HEAD:a.txt"); text != "unstaged" {
					t.Errorf("a.txt = %q, want the working tree's", text)
				}
			}
			if got != want {
				t.Errorf("files seeded:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestSeedCleanWithIncludeUncommitted(t *testing.T) {
	w := newWorld(t)
	head := w.repository("repo")
	s, err := w.git.Seed(t.Context(), w.path("repo"), SeedOptions{IncludeUncommitted: true}, w.path("out.bundle"))
	if err != nil || s.Head != head || s.Dirty {
		t.Errorf("Seed = %+v, %v, want the clean head %s", s, err, head)
	}
}

func TestSeedWarnings(t *testing.T) {
	w := newWorld(t)
	w.repository("repo")
	w.write("repo/.gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ../x\n")
	w.commitTree("repo", "assets/.gitattributes", "*.bin filter=lfs\n")
	s, err := w.git.Seed(t.Context(), w.path("repo"), SeedOptions{}, w.path("out.bundle"))
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, warning := range s.Warnings {
		codes = append(codes, warning.Code)
	}
	if d := cmp.Diff([]string{"submodules", "lfs"}, codes); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}

// A git environment that points elsewhere (lattice started from a hook, say) does not redirect us.
func TestSeedIgnoresInheritedGitDir(t *testing.T) {
	w := newWorld(t)
	head := w.repository("repo")
	w.repository("other")
	g, err := New(Options{Env: append(w.env, "GIT_DIR="+w.path("other/.git"), "GIT_INDEX_FILE=/nonexistent"), Scratch: w.path("scratch")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Seed(t.Context(), w.path("repo"), SeedOptions{}, w.path("out.bundle"))
	if err != nil || s.Head != head {
		t.Errorf("Seed = %+v, %v, want head %s", s, err, head)
	}
}

// bytes is every file below dir with its digest and mode.
func (w *world) bytes(dir string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(w.path(dir), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[p] = info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			all[p] += fmt.Sprintf(" %x %s", sha256.Sum256(b), info.ModTime())
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// A shallow clone, as CI makes them, is seeded with the history of its origin, and takes what comes back.
func TestSeedShallowClone(t *testing.T) {
	w := newWorld(t)
	w.repository("repo")
	w.commitTree("repo", "b.txt", "two\n")
	w.in("repo", "checkout", "-q", "-b", "topic")
	tip := w.commitTree("repo", "c.txt", "three\n")
	w.in("repo", "checkout", "-q", "main")
	w.commitTree("repo", "d.txt", "four\n")
	w.in("repo", "merge", "-q", "--no-ff", "-m", "merge", "topic")
	w.in("repo", "branch", "-D", "topic")
	for name, ref := range map[string]string{"branch": "main", "commit": tip} {
		t.Run(name, func(t *testing.T) {
			dir := "ci-" + name
			w.in(".", "init", "-q", dir)
			w.in(dir, "remote", "add", "origin", "file://"+w.path("repo"))
			w.in(dir, "fetch", "-q", "--depth=1", "origin", ref)
			w.in(dir, "checkout", "-q", "--detach", "FETCH_HEAD")
			state := func() string {
				return w.in(dir, "for-each-ref") + w.in(dir, "rev-parse", "--is-shallow-repository") + w.in(dir, "rev-list", "--all", "HEAD")
			}
			before := state()
			w.write(dir+"/new.txt", "uncommitted\n")
			s, err := w.git.Seed(t.Context(), w.path(dir), SeedOptions{IncludeUncommitted: true}, w.path(name+".bundle"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, state()); diff != "" {
				t.Errorf("the clone changed: %s", diff)
			}
			sprite := "in-" + name
			w.in(".", "clone", "-q", s.Bundle, sprite)
			if got, want := w.in(sprite, "rev-list", "--count", "HEAD"), w.in("repo", "rev-list", "--count", s.BaseHead); got == want || s.Head == s.BaseHead {
				t.Errorf("%s commits in the sprite, %s in the repository, and one for what was not committed", got, want)
			}
			w.in(sprite, "checkout", "-q", "-b", "fix")
			head := w.commitTree(sprite, "fix.txt", "fixed\n")
			w.in(sprite, "bundle", "create", "-q", w.path("fix.bundle"), s.BaseHead+"..fix")
			p, err := w.git.Inspect(t.Context(), Request{Repo: w.path(dir), Run: name, Bundle: w.path("fix.bundle"), Branch: "fix", Base: s.BaseHead, Head: head})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := w.git.Push(t.Context(), p); err != nil || r.Status != Pushed {
				t.Errorf("Push = %+v, %v", r, err)
			}
		})
	}
}

// What a run would not get is known before it starts.
func TestMissing(t *testing.T) {
	w := newWorld(t)
	head := w.repository("repo")
	if got, err := w.git.Missing(t.Context(), w.path("repo"), ""); err != nil || len(got) > 0 {
		t.Errorf("Missing = %v, %v", got, err)
	}
	w.write("repo/.gitmodules", "[submodule \"a b\"]\n\tpath = third party\n\turl = https://example.org/a\n")
	w.write("repo/sub/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	w.in("repo", "add", "-A")
	w.in("repo", "update-index", "--add", "--cacheinfo", "160000,"+head+",third party")
	w.in("repo", "commit", "-q", "-m", "more")
	got, err := w.git.Missing(t.Context(), w.path("repo"), "")
	if err != nil || len(got) != 2 || !strings.Contains(got[0].Message, ": third party") || got[1].Code != "lfs" {
		t.Errorf("Missing = %v, %v", got, err)
	}
}
