package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// origin makes a bare remote of a repository with one commit, with a hook that records every update it sees.
func (w *world) origin() (url string) {
	w.t.Helper()
	w.repository("repo")
	w.in(".", "clone", "-q", "--bare", w.path("repo"), "origin.git")
	w.hook("origin.git/hooks/post-receive", "cat >> "+w.path("received"))
	return "file://" + w.path("origin.git")
}

func (w *world) hook(name, script string) {
	w.t.Helper()
	w.write(name, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(w.path(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) received() []string {
	b, err := os.ReadFile(w.path("received"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestInspectAndPushToURL(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix/cache")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Run: "r1", Bundle: bundle, Branch: "fix/cache", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	wantDiff := Diff{
		Files:      []File{{Path: "fix.txt", Status: "A", Additions: 1}},
		Commits:    []Commit{{SHA: head, Subject: "change fix.txt", Author: "Ada Lovelace <ada@example.org>"}},
		FilesTotal: 1, CommitsTotal: 1, Additions: 1, Stat: "1 files changed, 1 insertions(+), 0 deletions(-)",
	}
	if d := cmp.Diff(wantDiff, p.Diff); d != "" {
		t.Errorf("diff (-want +got):\n%s", d)
	}
	if p.Branch != "fix/cache" || p.Old != "" || p.RemoteURL != url || len(p.DiffDigest) != 64 {
		t.Errorf("Inspect = %+v", p)
	}
	if w.received() != nil {
		t.Error("Inspect changed the remote")
	}
	want := PushResult{Ref: "refs/heads/fix/cache", New: head, Status: Pushed, URL: url}
	for _, status := range []PushStatus{Pushed, AlreadyThere, AlreadyThere} {
		want.Status = status
		got, err := w.git.Push(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Push (-want +got):\n%s", d)
		}
	}
	if got := w.received(); len(got) != 1 || !strings.HasSuffix(got[0], head+" refs/heads/fix/cache") {
		t.Errorf("the remote saw %q, want one update", got)
	}
	w.in("origin.git", "fsck", "--strict")
}

// A push to a path makes lattice/<run> there and touches nothing else, whatever branch was asked for.
func TestPushToLocalPath(t *testing.T) {
	for _, ask := range []string{"fix", "main", "lattice/other"} {
		t.Run(ask, func(t *testing.T) {
			w := newWorld(t)
			w.repository("repo")
			w.in("repo", "checkout", "-q", "-b", "work")
			w.write("repo/dirty", "dirty\n")
			w.hook("repo/.git/hooks/post-receive", "cat >> "+w.path("received"))
			base, head, bundle := w.sprite(w.path("repo"), "fix")
			status, branch := w.in("repo", "status", "--porcelain=v2", "--branch"), w.in("repo", "for-each-ref", "refs/heads/main", "refs/heads/work")
			p, err := w.git.Inspect(t.Context(), Request{Repo: w.path("repo"), Run: "r1", Bundle: bundle, Branch: ask, Base: base, Head: head})
			if err != nil {
				t.Fatal(err)
			}
			got, err := w.git.Push(t.Context(), p)
			want := PushResult{Ref: "refs/heads/lattice/r1", New: head, Status: Pushed, URL: w.path("repo")}
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Fatalf("Push: %v (-want +got):\n%s", err, d)
			}
			if now := w.in("repo", "status", "--porcelain=v2", "--branch"); now != status {
				t.Errorf("status changed:\n%s\nwas:\n%s", now, status)
			}
			if now := w.in("repo", "for-each-ref", "refs/heads/main", "refs/heads/work"); now != branch {
				t.Errorf("branches changed:\n%s\nwas:\n%s", now, branch)
			}
			if len(w.received()) != 1 {
				t.Errorf("the repository's own hook saw %q, want one update", w.received())
			}
			if again, err := w.git.Push(t.Context(), p); err != nil || again.Status != AlreadyThere {
				t.Errorf("Push again = %+v, %v, want already_there", again, err)
			}
			w.in("repo", "checkout", "-q", "lattice/r1")
			_, err = w.git.Push(t.Context(), p)
			wantCode(t, err, "branch_checked_out")
		})
	}
}

func TestProtectedBranches(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	w.in("origin.git", "branch", "trunk")
	w.in("origin.git", "symbolic-ref", "HEAD", "refs/heads/trunk")
	g, err := New(Options{Env: w.env, Scratch: w.path("scratch"), Protected: []string{"release/*", "prod/**", "[broken"}})
	if err != nil {
		t.Fatal(err)
	}
	w.git = g
	base, head, bundle := w.sprite(url, "fix")
	for _, branch := range []string{"main", "master", "MAIN", "Master", "release/1", "RELEASE/2", "prod/a/b", "trunk", "Trunk", "anything, as a pattern is broken"} {
		branch = strings.ReplaceAll(strings.ReplaceAll(branch, ", ", "-"), " ", "-")
		t.Run(branch, func(t *testing.T) {
			q := Request{Repo: url, Run: "r1", Bundle: bundle, Branch: branch, Base: base, Head: head}
			_, err := w.git.Inspect(t.Context(), q)
			wantCode(t, err, "protected_branch")
			_, err = w.git.Push(t.Context(), Push{Request: q, RemoteURL: url, Branch: branch, Base: base, Head: head})
			wantCode(t, err, "protected_branch")
		})
	}
	if w.received() != nil {
		t.Errorf("the remote saw %q", w.received())
	}
}

// Named protected branches are refused without a word to the remote: this one cannot even be reached.
func TestProtectedBeforeContact(t *testing.T) {
	w := newWorld(t)
	_, err := w.git.Inspect(t.Context(), Request{Repo: "https://127.0.0.1:1/r", Branch: "main", Base: strings.Repeat("a", 40)})
	wantCode(t, err, "protected_branch")
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	branches := []string{"", "-f", "--delete", "--force-with-lease", "a..b", "../x", "a/../b", "refs/heads/x", "Refs/heads/x", "HEAD", "head", "@", "a b", "a:b",
		"a~1", "a^", "a?", "a*", "a[", `a\b`, "a\nb", "a\x00b", "a\x1b[31m", ".a", "a/.b", "a.lock", "a.LOCK/b", "a/", "/a", "a//b", "a.", "a@{1}", "\xff", "a\u202eb", strings.Repeat("x", 300)}
	for _, branch := range branches {
		_, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: branch, Base: base, Head: head})
		var r *lattice.Refusal
		if !errors.As(err, &r) || r.Fault.Code != "bad_branch" {
			t.Errorf("branch %q: got %v, want bad_branch", branch, err)
		}
	}
	for _, oid := range []string{"", "HEAD", "main", base[:39], strings.ToUpper(base), "--help", base + "~1"} {
		_, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: oid, Head: head})
		wantCode(t, err, "bad_request")
	}
	_, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: head, Head: base})
	wantCode(t, err, "head_mismatch")
	_, err = w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: strings.Repeat("a", 40)})
	wantCode(t, err, "unknown_base")
	_, err = w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: head})
	wantCode(t, err, "nothing_to_push")
}

// Many pushes of different commits to one branch: the compare-and-swap lets exactly one win, and no commit is lost.
func TestConcurrentPushes(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, _, _ := w.sprite(url, "x")
	const racers = 4
	var pushes [racers]Push
	for i := range pushes {
		_, head, bundle := w.sprite(url, "racer"+string(rune('a'+i)))
		p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "contested", Base: base, Head: head})
		if err != nil {
			t.Fatal(err)
		}
		pushes[i] = p
	}
	var wg sync.WaitGroup
	var results [racers]PushResult
	var errs [racers]error
	for i := range pushes {
		wg.Go(func() { results[i], errs[i] = w.git.Push(context.WithoutCancel(t.Context()), pushes[i]) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			if got := w.in("origin.git", "rev-parse", "contested"); got != pushes[i].Head || results[i].Status != Pushed {
				t.Errorf("racer %d says %+v, the branch is at %s", i, results[i], got)
			}
			continue
		}
		wantCode(t, err, "stale")
	}
	if won != 1 || len(w.received()) != 1 {
		t.Errorf("%d pushes won, the remote saw %q; want one", won, w.received())
	}
}

// The same push, many times at once: one update, and everybody is told that it is there.
func TestConcurrentSamePush(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var errs [4]error
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.git.Push(context.WithoutCancel(t.Context()), p) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil || len(w.received()) != 1 {
		t.Errorf("Push = %v; the remote saw %q, want one update", err, w.received())
	}
}

func TestStale(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	q := Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head}
	p, err := w.git.Inspect(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	other := w.commitTree("repo", "other.txt", "other\n")
	w.in("repo", "push", "-q", w.path("origin.git"), "HEAD:refs/heads/fix")
	_, err = w.git.Push(t.Context(), p)
	wantCode(t, err, "stale")
	_, err = w.git.Inspect(t.Context(), q)
	wantCode(t, err, "not_fast_forward")
	p.Old = other // a lease on the right value does not make it a forced push
	_, err = w.git.Push(t.Context(), p)
	wantCode(t, err, "not_fast_forward")
	if got := w.in("origin.git", "rev-parse", "fix"); got != other {
		t.Errorf("fix is at %s, want %s untouched", got, other)
	}
}

func TestFastForwardOfExistingBranch(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	w.in("origin.git", "branch", "fix", base)
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil || p.Old != base {
		t.Fatalf("Inspect = %+v, %v, want old %s", p, err, base)
	}
	if r, err := w.git.Push(t.Context(), p); err != nil || r.Status != Pushed || r.Old != base {
		t.Errorf("Push = %+v, %v", r, err)
	}
}

func TestBindingChanged(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Push){
		"digest": func(p *Push) { p.DiffDigest = strings.Repeat("0", 64) },
		"branch": func(p *Push) { p.Branch = "elsewhere" },
		"remote": func(p *Push) { p.RemoteURL = "https://example.org/r" },
		"head":   func(p *Push) { p.Head = base },
		"base":   func(p *Push) { p.Base = head },
	} {
		t.Run(name, func(t *testing.T) {
			changed := p
			change(&changed)
			_, err := w.git.Push(t.Context(), changed)
			wantCode(t, err, "binding_changed")
		})
	}
}

func TestRejectedByRemote(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	w.hook("origin.git/hooks/pre-receive", `printf 'No pushes \033[31mon Saturday\033[0m\007, see https://ada:s3cret@example.org/policy\n' >&2; exit 1`)
	_, err = w.git.Push(t.Context(), p)
	wantCode(t, err, "rejected_by_remote")
	got := err.Error()
	if !strings.Contains(got, "No pushes on Saturday, see https://***@example.org/policy") || strings.ContainsAny(got, "\x1b\a") || strings.Contains(got, "s3cret") {
		t.Errorf("message = %q", got)
	}
	if err := os.Remove(w.path("origin.git/hooks/pre-receive")); err != nil {
		t.Fatal(err)
	}
	if r, err := w.git.Push(t.Context(), p); err != nil || r.Status != Pushed {
		t.Errorf("Push later = %+v, %v", r, err)
	}
}

// No answer is not an answer: the error is no refusal, and the push can be made when the remote is back.
func TestRemoteGone(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.path("origin.git"), w.path("away.git")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.git.Push(t.Context(), p); err == nil || gitexec.IsRefusal(err) {
		t.Errorf("Push without remote: %v, want an error that is not final", err)
	}
	if err := os.Rename(w.path("away.git"), w.path("origin.git")); err != nil {
		t.Fatal(err)
	}
	if r, err := w.git.Push(t.Context(), p); err != nil || r.Status != Pushed {
		t.Errorf("Push later = %+v, %v", r, err)
	}
}

// A shallow or borrowed repository of the user still takes a push.
func TestPushIntoRepositoryWithAlternates(t *testing.T) {
	w := newWorld(t)
	w.repository("repo")
	w.in(".", "clone", "-q", "--shared", w.path("repo"), "borrower")
	base, head, bundle := w.sprite(w.path("borrower"), "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: w.path("borrower"), Run: "r1", Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.git.Push(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.path("borrower"), ".git/refs/heads/lattice/r1")); err != nil {
		t.Error(err)
	}
}

// The git that pushes, and the hooks that it starts, do not have the agent's variables.
func TestPushWithoutTheAgentsEnvironment(t *testing.T) {
	w := newWorld(t)
	w.git.proc.Env = append(w.git.proc.Env, "MODEL_KEY=sk-secret", "EDITOR=ed")
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	w.hook("origin.git/hooks/pre-receive", "env >"+w.path("seen"))
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	p.Request.Hide = []string{"MODEL_KEY"}
	if _, err := w.git.Push(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile(w.path("seen"))
	if err != nil || strings.Contains(string(seen), "sk-secret") || !strings.Contains(string(seen), "EDITOR=ed") {
		t.Errorf("the hook saw %s (%v)", seen, err)
	}
}
