package gitea_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/gitea"
	"github.com/spritekit/lattice/orchestrator/forge/publish"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

// TestRealGitea runs plan, pull request and fixup against Gitea itself: a comment on an issue, a pull request that is
// opened once under one key, a review, a second commit, and the other calls of the client.
func TestRealGitea(t *testing.T) {
	t.Parallel()
	from := os.Getenv(forgetest.GiteaEnv)
	if from == "" {
		t.Skip("no real Gitea: " + forgetest.GiteaEnv + " is not set")
	}
	ctx := t.Context()
	g, err := forgetest.StartGitea(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	token, err := g.AddUser(ctx, "lattice")
	if err != nil {
		t.Fatal(err)
	}
	connect := func(token string) *gitea.Client {
		return gitea.New(g.URL, rest.Options{Token: func(context.Context) (string, error) { return token, nil }})
	}
	boss, c := connect(g.OwnerToken()), connect(token)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(boss.Do(ctx, http.MethodPost, "/user/repos", map[string]any{"name": "site", "auto_init": true, "default_branch": "main"}, nil))
	check(boss.Do(ctx, http.MethodPut, "/repos/acme/site/collaborators/lattice", map[string]any{"permission": "admin"}, nil))
	site := forge.Path{Owner: "acme", Name: "site"}
	self, err := c.Self(ctx)
	check(err)
	master, err := boss.Self(ctx)
	check(err)
	for id, want := range map[int64]forge.Role{self.ID: forge.Admin, master.ID: forge.Admin, 4242: forge.NoRole} {
		if role, err := c.Role(ctx, site, id); err != nil || role != want {
			t.Errorf("the role of %d is %s, %v, want %s", id, role, err, want)
		}
	}
	issue, err := boss.OpenIssue(ctx, site, forge.NewIssue{Title: "It is broken", Labels: []string{"bug"}})
	check(err)
	p := &publish.Publisher{Hosts: map[string]publish.Host{"main": {Web: g.URL, Repositories: []forge.Path{site}, Client: func() (publish.Client, error) { return c, nil }}}}
	place, ok, err := p.Find(ctx, g.URL+"/acme/site.git")
	if err != nil || !ok || place.DefaultBranch != "main" {
		t.Fatalf("Find = %+v, %t, %v", place, ok, err)
	}
	for range 2 {
		if done, err := p.PostComment(ctx, place, forge.Attempt{Key: "k1"}, issue.Number, "The plan: fix it."); err != nil || done.URL == "" {
			t.Errorf("PostComment = %+v, %v", done, err)
		}
	}
	comments, err := c.Comments(ctx, site, issue.Number)
	check(err)
	if len(comments) != 1 || comments[0].Edited() || comments[0].Author.ID != self.ID {
		t.Fatalf("the comments are %+v", comments)
	}
	time.Sleep(1100 * time.Millisecond) // Gitea counts in seconds
	edited, err := c.EditComment(ctx, site, comments[0].ID, "The plan: fix it well.")
	check(err)
	since, err := c.CommentsSince(ctx, site, edited.Updated)
	check(err)
	if !edited.Edited() || len(since) != 1 || since[0].Number != issue.Number {
		t.Errorf("edited: %+v, since then: %+v", edited, since)
	}
	check(c.React(ctx, site, edited.ID, forge.Seen))
	check(p.AddLabels(ctx, place, issue.Number, []string{"lattice:running", "bug"}))
	check(c.RemoveLabel(ctx, site, issue.Number, "bug"))
	if i, err := c.Issue(ctx, site, issue.Number); err != nil || len(i.Labels) != 1 || i.Labels[0] != "lattice:running" {
		t.Errorf("the issue is %+v, %v", i, err)
	}

	work := filepath.Join(g.Dir, "work")
	remote := strings.Replace(g.URL, "://", "://x-access-token:"+token+"@", 1) + "/acme/site.git"
	git := func(args ...string) {
		t.Helper()
		_, err := g.Run(ctx, "git", args...)
		check(err)
	}
	git("clone", "-q", remote, work)
	push := func(subject string) {
		git("-C", work, "commit", "-q", "--allow-empty", "-m", subject)
		git("-C", work, "push", "-q", remote, "HEAD:refs/heads/fix")
	}
	push("Fix it")
	var number int64
	for range 2 {
		done, err := p.OpenPull(ctx, place, "k2", forge.NewPull{Title: "Fix it", Body: "text", Head: "fix", Base: "main", Draft: true})
		if err != nil || done.Status != forge.Opened {
			t.Fatalf("OpenPull = %+v, %v", done, err)
		}
		number = done.Number
	}
	if done, err := p.OpenPull(ctx, place, "k3", forge.NewPull{Title: "Fix it", Head: "fix", Base: "main"}); err != nil || done.Status != forge.AlreadyOpen || done.Number != number {
		t.Errorf("OpenPull = %+v, %v", done, err)
	}
	opened, err := c.Pull(ctx, site, number)
	check(err)
	check(boss.Do(ctx, http.MethodPost, fmt.Sprintf("/repos/acme/site/pulls/%d/reviews", number), map[string]any{"event": "REQUEST_CHANGES", "body": "once more"}, nil))
	push("Fix it better")                                                                                                              // the fixup
	check(boss.Do(ctx, http.MethodPatch, fmt.Sprintf("/repos/acme/site/pulls/%d", number), map[string]string{"title": "Fix it"}, nil)) // a person marks it ready
	ready, err := c.Pull(ctx, site, number)
	check(err)
	if !opened.Draft || ready.Draft || ready.Title != "Fix it" || ready.FromFork() || ready.Head.SHA == opened.Head.SHA {
		t.Errorf("opened as %+v\nready as %+v", opened, ready)
	}
	reviews, err := c.Reviews(ctx, site, number)
	check(err)
	if len(reviews) != 1 || reviews[0].ID == 0 || reviews[0].Submitted.IsZero() || reviews[0].State != forge.ChangesRequested || reviews[0].Author.ID != master.ID || reviews[0].CommitID != opened.Head.SHA {
		t.Errorf("the reviews are %+v", reviews)
	}
	changed, err := c.IssuesSince(ctx, site, reviews[0].Submitted)
	check(err)
	if len(changed) == 0 || !changed[len(changed)-1].Pull || changed[len(changed)-1].Number != number {
		t.Errorf("a poll does not find the review: %+v", changed)
	}
	check(c.SetCheck(ctx, site, ready.Head.SHA, forge.Check{Name: "lattice/run", State: forge.CheckSuccess, Summary: "green"}))
	hook, err := boss.CreateHook(ctx, site, "http://127.0.0.1:9/hooks/main", "a secret of some length", []string{"issue_comment"})
	check(err)
	if all, err := boss.Hooks(ctx, site); err != nil || len(all) != 1 || all[0].ID != hook.ID || all[0].URL != hook.URL {
		t.Errorf("the webhooks are %+v, %v", all, err)
	}
	check(boss.SetHookEvents(ctx, site, hook.ID, []string{"issue_comment", "push"}))
	if all, err := boss.Hooks(ctx, site); err != nil || len(all) != 1 || !slices.Contains(all[0].Events, "push") {
		t.Errorf("the webhooks with another event are %+v, %v", all, err)
	}
	line, err := c.CommentOnLine(ctx, site, number, forge.Line{SHA: ready.Head.SHA, Path: "README.md", Line: 1}, "The agent assumes this.")
	check(err)
	if lines, err := c.ReviewComments(ctx, site, number); err != nil || len(lines) != 1 || lines[0].ID != line.ID || lines[0].Path != "README.md" || lines[0].Author.ID != self.ID {
		t.Errorf("the comments on lines are %+v, %v", lines, err)
	}
	if _, err := c.Issue(ctx, site, 99); !forge.IsNotFound(err) {
		t.Errorf("an issue that is not there: %v", err)
	}
}
