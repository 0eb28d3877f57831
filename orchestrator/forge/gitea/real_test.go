package gitea_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/gitea"
	"github.com/spritekit/lattice/orchestrator/forge/publish"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

// giteaEnv names a folder with the program gitea-1.26.0, and its folders options and templates below static.
const giteaEnv = "LATTICE_GITEA"

// real is a Gitea in a folder of its own.
type real struct {
	*testing.T
	dir, web, program string
	user              *syscall.SysProcAttr // Gitea refuses to run as root
}

func (g real) run(name string, args ...string) string {
	g.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = g.dir, g.user, g.environ()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		g.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (g real) environ() []string {
	return append(os.Environ(), "HOME="+g.dir, "GITEA_WORK_DIR="+g.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@localhost", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@localhost")
}

func startGitea(t *testing.T) real {
	from := os.Getenv(giteaEnv)
	if from == "" {
		t.Skip("no real Gitea: " + giteaEnv + " is not set")
	}
	dir, err := os.MkdirTemp("/tmp", "gitea-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	g := real{T: t, dir: dir, web: fmt.Sprintf("http://127.0.0.1:%d", port), program: filepath.Join(from, "gitea-1.26.0")}
	config := fmt.Sprintf("RUN_MODE = prod\n[server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = %d\nROOT_URL = %s/\nSTATIC_ROOT_PATH = %s\nDISABLE_SSH = true\nOFFLINE_MODE = true\n[database]\nDB_TYPE = sqlite3\nPATH = %s/gitea.db\n[security]\nINSTALL_LOCK = true\n[log]\nLEVEL = Warn\n", port, g.web, filepath.Join(from, "static"), dir)
	if err := os.WriteFile(filepath.Join(dir, "app.ini"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		const nobody = 65534
		g.user = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, "app.ini"), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	g.run(g.program, "migrate", "-c", filepath.Join(dir, "app.ini"))
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, g.program, "web", "-c", filepath.Join(dir, "app.ini"))
	server.Dir, server.SysProcAttr, server.Env = dir, g.user, g.environ()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = server.Wait() })
	for range 600 {
		if res, err := http.Get(g.web + "/api/v1/version"); err == nil {
			res.Body.Close()
			return g
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("Gitea did not start")
	return g
}

// addUser adds a user and returns a token.
func (g real) addUser(name string) string {
	g.Helper()
	out := g.run(g.program, "admin", "user", "create", "-c", filepath.Join(g.dir, "app.ini"), "--username", name, "--password", "Secret-"+name+"-1", "--email", name+"@localhost.test",
		"--must-change-password=false", "--access-token", "--access-token-scopes", "all")
	fields := strings.Fields(out[strings.Index(out, "Access token"):])
	for _, f := range fields {
		if len(f) == 40 {
			return f
		}
	}
	g.Fatalf("no token in %q", out)
	return ""
}

// TestRealGitea runs plan, pull request and fixup against Gitea itself: a comment on an issue, a pull request that is
// opened once under one key, a review, a second commit, and the other calls of the client.
func TestRealGitea(t *testing.T) {
	g := startGitea(t)
	ctx := t.Context()
	owner, token := g.addUser("acme"), g.addUser("lattice")
	connect := func(token string) *gitea.Client {
		return gitea.New(g.web, rest.Options{Token: func(context.Context) (string, error) { return token, nil }})
	}
	boss, c := connect(owner), connect(token)
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
	p := &publish.Publisher{Hosts: map[string]publish.Host{"main": {Web: g.web, Repositories: []forge.Path{site}, Client: func() (publish.Client, error) { return c, nil }}}}
	place, ok, err := p.Find(ctx, g.web+"/acme/site.git")
	if err != nil || !ok || place.DefaultBranch != "main" {
		t.Fatalf("Find = %+v, %t, %v", place, ok, err)
	}
	for range 2 {
		if done, err := p.PostComment(ctx, place, "k1", issue.Number, "The plan: fix it."); err != nil || done.URL == "" {
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

	work := filepath.Join(g.dir, "work")
	remote := strings.Replace(g.web, "://", "://x-access-token:"+token+"@", 1) + "/acme/site.git"
	g.run("git", "clone", "-q", remote, work)
	push := func(subject string) {
		g.run("git", "-C", work, "commit", "-q", "--allow-empty", "-m", subject)
		g.run("git", "-C", work, "push", "-q", remote, "HEAD:refs/heads/fix")
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
	push("Fix it better") // the fixup
	check(c.MarkReady(ctx, site, number))
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
	if _, err := c.Issue(ctx, site, 99); !forge.IsNotFound(err) {
		t.Errorf("an issue that is not there: %v", err)
	}
}
