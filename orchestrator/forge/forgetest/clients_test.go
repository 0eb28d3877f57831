package forgetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/gitea"
	"github.com/spritekit/lattice/orchestrator/forge/github"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

var site = forge.Path{Owner: "acme", Name: "site"}

// clock is a clock that only Sleep moves.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	slept time.Duration
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) Sleep(_ context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.slept = c.now.Add(d), c.slept+d
	return nil
}

// world is a server with a repository, and clients of the account lattice and of others.
type world struct {
	*testing.T
	*forgetest.Server
	kind  forge.Kind
	clock *clock
	dir   string // of the bare repository
	work  string // a clone
	bot   client
	botID int64
}

func eachKind(t *testing.T, test func(w *world)) {
	for _, kind := range forge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			w := &world{T: t, Server: forgetest.New(kind), kind: kind, clock: &clock{now: time.Unix(1_000_000, 0)}, dir: filepath.Join(t.TempDir(), "site.git"), work: filepath.Join(t.TempDir(), "work")}
			t.Cleanup(w.Close)
			w.git(".", "init", "-q", "--bare", "-b", "main", w.dir)
			var token string
			w.botID, token = w.AddUser("lattice", "Bot")
			w.AddRepository("acme/site", w.dir)
			w.SetRole("acme/site", "lattice", forge.Write)
			w.bot = w.client(token)
			test(w)
		})
	}
}

// client is a client that can do all.
type client interface {
	forge.Client
	forge.HookKeeper
}

func (w *world) options(token string) rest.Options {
	return rest.Options{Token: func(context.Context) (string, error) { return token, nil }, Now: w.clock.Now, Sleep: w.clock.Sleep}
}

func (w *world) client(token string) client {
	o := w.options(token)
	if w.kind == forge.GitHub {
		return github.New(w.URL, o)
	}
	return gitea.New(w.URL, o)
}

func (w *world) git(dir string, args ...string) {
	w.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "credential.helper="}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// commit commits a new file of a name. The first one is also pushed to main.
func (w *world) commit(name string) {
	w.Helper()
	if _, err := os.Stat(w.work); err != nil {
		w.git(".", "init", "-q", "-b", "main", w.work)
		w.git(w.work, "commit", "-q", "--allow-empty", "-m", "first")
		w.push("main")
	}
	if err := os.WriteFile(filepath.Join(w.work, name), []byte(name), 0o600); err != nil {
		w.Fatal(err)
	}
	w.git(w.work, "add", "-A")
	w.git(w.work, "commit", "-q", "-m", name)
}

// push pushes the present commit to a branch over HTTP, as lattice.
func (w *world) push(branch string, more ...string) {
	w.Helper()
	to := strings.Replace(w.URL, "://", "://x-access-token:token-of-lattice@", 1) + "/acme/site.git"
	w.git(w.work, append(append([]string{"push", "-q"}, more...), to, "HEAD:refs/heads/"+branch)...)
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func TestIssuesAndComments(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		self, err := w.bot.Self(ctx)
		w.check(err)
		if self.ID != w.botID || self.Login != "lattice" {
			w.Errorf("self is %+v", self)
		}
		repo, err := w.bot.Repository(ctx, site)
		w.check(err)
		if repo.Path != site || repo.DefaultBranch != "main" || repo.ID == 0 || repo.CloneURL != w.URL+"/acme/site.git" {
			w.Errorf("the repository is %+v", repo)
		}
		w.AddUser("ann", "User")
		n := int64(w.OpenIssue("acme/site", "ann", "It is broken", "see the log"))
		issue, err := w.bot.Issue(ctx, site, n)
		w.check(err)
		if issue.Title != "It is broken" || issue.Author.Login != "ann" || !issue.Open || issue.Pull {
			w.Errorf("the issue is %+v", issue)
		}
		made, err := w.bot.CreateComment(ctx, site, n, "hello")
		w.check(err)
		if made.Number != n || made.Author.ID != w.botID || made.Edited() {
			w.Errorf("the comment is %+v", made)
		}
		_, err = w.bot.EditComment(ctx, site, made.ID, "hello again")
		w.check(err)
		again, err := w.bot.Comment(ctx, site, made.ID)
		w.check(err)
		if again.Body != "hello again" || !again.Edited() || again.Number != n {
			w.Errorf("the edited comment is %+v", again)
		}
		w.check(w.bot.React(ctx, site, made.ID, forge.Seen))
		w.check(w.bot.React(ctx, site, made.ID, forge.Seen))

		w.check(w.bot.AddLabels(ctx, site, n, []string{"bug", "help wanted"}))
		w.check(w.bot.AddLabels(ctx, site, n, []string{"bug"}))
		w.check(w.bot.RemoveLabel(ctx, site, n, "help wanted"))
		w.check(w.bot.RemoveLabel(ctx, site, n, "help wanted"))
		issue, err = w.bot.Issue(ctx, site, n)
		w.check(err)
		if !slices.Equal(issue.Labels, []string{"bug"}) {
			w.Errorf("the labels are %q", issue.Labels)
		}
		opened, err := w.bot.OpenIssue(ctx, site, forge.NewIssue{Title: "Task", Body: "do it", Labels: []string{"bug"}})
		w.check(err)
		if opened.Number != n+1 {
			w.Errorf("the new issue is %+v", opened)
		}
		all, err := w.bot.IssuesSince(ctx, site, time.Time{})
		w.check(err)
		if len(all) != 2 || all[1].Number != n+1 {
			w.Errorf("the issues are %+v", all)
		}
		late, err := w.bot.CommentsSince(ctx, site, again.Updated)
		w.check(err)
		if len(late) != 1 || late[0].Number != n {
			w.Errorf("the comments are %+v", late)
		}
		if none, err := w.bot.CommentsSince(ctx, site, again.Updated.Add(time.Second)); err != nil || len(none) != 0 {
			w.Errorf("there are %+v, %v", none, err)
		}
		if _, err := w.bot.Issue(ctx, site, 99); !forge.IsNotFound(err) {
			w.Errorf("an issue that is not there: %v", err)
		}
		if _, err := w.client("guessed").Self(ctx); err == nil || !strings.Contains(err.Error(), "401: Bad credentials") {
			w.Errorf("a wrong token: %v", err)
		}
	})
}

// A list of several pages is read to its end.
func TestPages(t *testing.T) {
	eachKind(t, func(w *world) {
		w.AddUser("ann", "User")
		n := w.OpenIssue("acme/site", "ann", "long", "")
		for i := range 205 {
			w.Comment("acme/site", "ann", n, strconv.Itoa(i))
		}
		all, err := w.bot.Comments(t.Context(), site, int64(n))
		w.check(err)
		if len(all) != 205 || all[204].Body != "204" {
			w.Errorf("there are %d comments", len(all))
		}
	})
}

// The role is that of the account with the id, at the moment of the question.
func TestRole(t *testing.T) {
	eachKind(t, func(w *world) {
		if w.kind == forge.Gitea { // tells the roles of others only to administrators of the repository
			id, _ := w.AddUser("early", "User")
			if _, err := w.bot.Role(t.Context(), site, id); err == nil {
				t.Error("an account that may write sees the role of another")
			}
			w.SetRole("acme/site", "lattice", forge.Admin)
		}
		id, _ := w.AddUser("ann", "User")
		role := func() forge.Role {
			r, err := w.bot.Role(t.Context(), site, id)
			w.check(err)
			return r
		}
		if r := role(); r != forge.Read {
			w.Errorf("a stranger has %s", r)
		}
		for _, want := range forge.Roles()[1:] {
			w.SetRole("acme/site", "ann", want)
			if r := role(); r != want {
				w.Errorf("%s is read as %s", want, r)
			}
		}
		// Another person takes the name; the id keeps its role.
		w.Rename("ann", "ann-old")
		other, _ := w.AddUser("ann", "User")
		if r := role(); r != forge.Admin {
			w.Errorf("after the renaming: %s", r)
		}
		if r, err := w.bot.Role(t.Context(), site, other); err != nil || r != forge.Read {
			w.Errorf("the new ann has %s, %v", r, err)
		}
		if r, err := w.bot.Role(t.Context(), site, 424242); err != nil || r != forge.NoRole {
			w.Errorf("an unknown id has %s, %v", r, err)
		}
	})
}

func TestPullRequests(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		w.commit("changed")
		w.push("main")
		w.check(os.WriteFile(filepath.Join(w.work, "changed"), []byte("otherwise"), 0o600))
		w.commit("second")
		w.push("sprite/1")
		opened, err := w.bot.OpenPull(ctx, site, forge.NewPull{Title: "Second", Body: "text", Head: "sprite/1", Base: "main", Draft: true})
		w.check(err)
		if !opened.Draft || opened.Head.SHA != w.Branch("acme/site", "sprite/1") || opened.FromFork() || !opened.Open {
			w.Errorf("the pull request is %+v", opened)
		}
		if _, err := w.bot.OpenPull(ctx, site, forge.NewPull{Title: "Second", Head: "sprite/1", Base: "main"}); err == nil || !strings.Contains(err.Error(), "already exists") {
			w.Errorf("the second one: %v", err)
		}
		found, err := w.bot.PullsOf(ctx, site, "sprite/1")
		w.check(err)
		if len(found) != 1 || found[0].Number != opened.Number {
			w.Errorf("found %+v", found)
		}
		if found, err := w.bot.PullsOf(ctx, site, "sprite"); err != nil || len(found) != 0 {
			w.Errorf("another branch has %+v, %v", found, err)
		}
		status := map[forge.Kind]string{forge.GitHub: "modified", forge.Gitea: "changed"}[w.kind]
		if files, err := w.bot.Files(ctx, site, opened.Number); err != nil || !slices.Equal(files, []forge.File{{Path: "changed", Status: status, Additions: 1, Deletions: 1}, {Path: "second", Status: "added", Additions: 1}}) {
			w.Errorf("the files are %+v, %v", files, err)
		}
		if issue, err := w.bot.Issue(ctx, site, opened.Number); err != nil || !issue.Pull {
			w.Errorf("as an issue: %+v, %v", issue, err)
		}

		w.AddUser("ann", "User")
		w.Review("acme/site", "ann", int(opened.Number), forgetest.Review{State: "APPROVED", Body: "good"})
		w.Review("acme/site", "ann", int(opened.Number), forgetest.Review{State: "COMMENTED", Comments: []forgetest.LineComment{{Path: "second", Line: 1, Body: "why?"}}})
		reviews, err := w.bot.Reviews(ctx, site, opened.Number)
		w.check(err)
		if len(reviews) != 2 || reviews[0].State != forge.Approved || reviews[0].CommitID != opened.Head.SHA || reviews[1].State != forge.Commented {
			w.Errorf("the reviews are %+v", reviews)
		}
		comments, err := w.bot.ReviewComments(ctx, site, opened.Number)
		w.check(err)
		if len(comments) != 1 || comments[0].Path != "second" || comments[0].Line != 1 || comments[0].Author.Login != "ann" {
			w.Fatalf("the comments are %+v", comments)
		}
		_, err = w.bot.Reply(ctx, site, opened.Number, comments[0], "because")
		w.check(err)
		w.check(w.bot.SetCheck(ctx, site, opened.Head.SHA, forge.Check{Name: "lattice/run", State: forge.CheckSuccess, Summary: strings.Repeat("é", 200)}))
		for _, step := range []struct {
			name  string
			state forge.CheckState
			want  forge.CheckState
			ok    bool
		}{{"", "", forge.CheckSuccess, false}, {"ci/build", forge.CheckPending, forge.CheckPending, true}, {"ci/test", forge.CheckSuccess, forge.CheckPending, true}, {"ci/build", forge.CheckFailure, forge.CheckFailure, true}, {"ci/build", forge.CheckSuccess, forge.CheckSuccess, true}} {
			if step.name != "" {
				w.SetCI("acme/site", opened.Head.SHA, step.name, step.state)
			}
			all, err := w.bot.Checks(ctx, site, opened.Head.SHA)
			w.check(err)
			if state, ok := forge.CombineChecks(all); state != step.want || ok != step.ok {
				w.Errorf("CombineChecks(%+v) = %s, %t; want %s, %t", all, state, ok, step.want, step.ok)
			}
		}
		if dump := w.Dump(); !strings.Contains(dump, "check "+opened.Head.SHA+" lattice/run success run=false") {
			w.Errorf("no check in\n%s", dump)
		}

		// After a force-push GitHub claims that the approval was for the new commit.
		w.git(w.work, "commit", "-q", "--amend", "-m", "other")
		w.push("sprite/1", "--force")
		reviews, err = w.bot.Reviews(ctx, site, opened.Number)
		w.check(err)
		now := w.Branch("acme/site", "sprite/1")
		if moved := reviews[0].CommitID == now; moved != (w.kind == forge.GitHub) || now == opened.Head.SHA {
			w.Errorf("the review is of %s, the head was %s and is %s", reviews[0].CommitID, opened.Head.SHA, now)
		}
	})
}

// A stranger can comment and read, and not push, label or open.
func TestAuthority(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		_, token := w.AddUser("mallory", "User")
		stranger := w.client(token)
		w.commit("second")
		w.push("sprite/1")
		for doing, err := range map[string]error{
			"open": func() error {
				_, err := stranger.OpenPull(ctx, site, forge.NewPull{Title: "x", Head: "sprite/1", Base: "main"})
				return err
			}(),
			"label": stranger.AddLabels(ctx, site, int64(w.OpenIssue("acme/site", "mallory", "x", "")), []string{"bug"}),
			"check": stranger.SetCheck(ctx, site, w.Branch("acme/site", "main"), forge.Check{Name: "x", State: forge.CheckSuccess}),
		} {
			if p, ok := errors.AsType[*forge.Problem](err); !ok || p.Status != http.StatusForbidden || !p.Final() {
				w.Errorf("%s: %v", doing, err)
			}
		}
		w.SetPrivate("acme/site")
		if _, err := stranger.Repository(ctx, site); !forge.IsNotFound(err) {
			w.Errorf("a private repository: %v", err)
		}
	})
}

func TestWebhooks(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		w.SetRole("acme/site", "lattice", forge.Admin)
		made, err := w.bot.CreateHook(ctx, site, "http://127.0.0.1:9/hooks/x", "a secret of some length", []string{"issues"})
		w.check(err)
		all, err := w.bot.Hooks(ctx, site)
		w.check(err)
		if len(all) != 1 || all[0].ID != made.ID || all[0].URL != "http://127.0.0.1:9/hooks/x" || !slices.Equal(all[0].Events, []string{"issues"}) {
			w.Errorf("the webhooks are %+v", all)
		}
		w.AddUser("ann", "User")
		w.Comment("acme/site", "ann", w.OpenIssue("acme/site", "ann", "x", ""), "not for this hook")
		if sent := w.Deliveries(); len(sent) != 1 || sent[0].Event != "issues" {
			w.Errorf("the deliveries are %+v", sent)
		}
		again, ok := w.bot.(forge.Redeliverer)
		if ok != (w.kind == forge.GitHub) {
			w.Fatalf("redelivery: %t", ok)
		}
		if ok {
			sent, err := again.Deliveries(ctx, site, made.ID)
			w.check(err)
			if len(sent) != 1 || sent[0].OK || sent[0].GUID != w.Deliveries()[0].GUID {
				w.Errorf("the deliveries are %+v", sent)
			}
		}
	})
}

// A limit of requests is waited for if it ends soon; the call is performed once.
func TestLimits(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		w.AddUser("ann", "User")
		n := int64(w.OpenIssue("acme/site", "ann", "x", ""))
		w.Server.Fail("POST", "/comments", 1, http.StatusForbidden, http.Header{"Retry-After": {"30"}})
		_, err := w.bot.CreateComment(ctx, site, n, "once")
		w.check(err)
		if w.clock.slept < 30*time.Second || strings.Count(w.Dump(), `"once"`) != 1 {
			w.Errorf("slept %s\n%s", w.clock.slept, w.Dump())
		}
		// One that ends in an hour fails at once, and so do the next calls, which are not sent.
		end := w.clock.Now().Add(time.Hour)
		w.Server.Fail("GET", "/issues/", 1, http.StatusForbidden, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {strconv.FormatInt(end.Unix(), 10)}})
		before, _ := w.Requests()
		for range 3 {
			_, err := w.bot.Issue(ctx, site, n)
			if p, ok := errors.AsType[*forge.Problem](err); !ok || !p.Limited() || p.Final() || !p.Retry.Equal(end) {
				w.Errorf("the error is %v", err)
			}
		}
		if after, _ := w.Requests(); after != before+1 {
			w.Errorf("%d requests were sent", after-before)
		}
		w.check(w.clock.Sleep(ctx, time.Hour))
		_, err = w.bot.Issue(ctx, site, n)
		w.check(err)
	})
}

// While a limit of writes lasts, the queue of writes waits. Writers at the same time lose nothing, and none is sent before the
// limit ends.
func TestWriteQueue(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		w.AddUser("ann", "User")
		n := int64(w.OpenIssue("acme/site", "ann", "x", ""))
		w.LimitWrites(3, time.Minute, w.clock.Now)
		var writers sync.WaitGroup
		const all = 10
		for i := range all {
			writers.Go(func() {
				if _, err := w.bot.CreateComment(ctx, site, n, fmt.Sprintf("write %d.", i)); err != nil {
					w.Errorf("write %d: %v", i, err)
				}
			})
		}
		writers.Wait()
		for i := range all {
			if text := fmt.Sprintf("write %d.", i); strings.Count(w.Dump(), text) != 1 {
				w.Errorf("%q is there %d times", text, strings.Count(w.Dump(), text))
			}
		}
		if got := w.Refused(); got != all/3 {
			w.Errorf("%d writes were refused, not %d", got, all/3)
		}
	})
}

// A failed read is repeated; a write whose outcome is unknown is not.
func TestFailures(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		w.AddUser("ann", "User")
		n := int64(w.OpenIssue("acme/site", "ann", "x", ""))
		w.Server.Fail("GET", "/issues/", 2, http.StatusBadGateway, nil)
		_, err := w.bot.Issue(ctx, site, n)
		w.check(err)
		w.LoseAnswer("POST", "/comments")
		if _, err := w.bot.CreateComment(ctx, site, n, "lost"); err == nil {
			w.Error("a lost answer is not an error")
		}
		if strings.Count(w.Dump(), `"lost"`) != 1 {
			w.Errorf("the state is\n%s", w.Dump())
		}
		w.Server.Fail("POST", "/comments", 1, http.StatusBadGateway, nil)
		if _, err := w.bot.CreateComment(ctx, site, n, "failed"); err == nil || strings.Contains(w.Dump(), `"failed"`) {
			w.Errorf("a failed write: %v", err)
		}
	})
}

// An answer that did not change is not sent again.
func TestETag(t *testing.T) {
	eachKind(t, func(w *world) {
		for range 3 {
			_, err := w.bot.Repository(t.Context(), site)
			w.check(err)
		}
		if _, unchanged := w.Requests(); w.kind == forge.GitHub && unchanged != 2 {
			w.Errorf("%d answers were unchanged", unchanged)
		}
		// A changed answer is read.
		w.AddUser("ann", "User")
		n := int64(w.OpenIssue("acme/site", "ann", "x", ""))
		for i := range 3 {
			w.Comment("acme/site", "ann", int(n), "more")
			if all, err := w.bot.Comments(t.Context(), site, n); err != nil || len(all) != i+1 {
				w.Errorf("%d comments, %v", len(all), err)
			}
		}
	})
}

// An App proves who it is with its key, and gets tokens of its installation, each for an hour. It may write check runs.
func TestApp(t *testing.T) {
	eachKind(t, func(w *world) {
		if w.kind != forge.GitHub {
			return
		}
		ctx := t.Context()
		text := w.AddApp(7, 70, "lattice-app", "acme/site", w.clock.Now)
		key, err := github.ParseKey(text)
		w.check(err)
		o := rest.Options{Now: w.clock.Now, Sleep: w.clock.Sleep}
		c := github.NewApp(w.URL, 7, 70, key, o)
		self, err := c.Self(ctx)
		w.check(err)
		if self.Login != "lattice-app[bot]" || !self.Bot {
			w.Errorf("self is %+v", self)
		}
		for range 3 {
			_, err := c.Repository(ctx, site)
			w.check(err)
		}
		if n := w.Minted(); n != 1 {
			w.Errorf("%d tokens were minted", n)
		}
		w.check(w.clock.Sleep(ctx, 58*time.Minute))
		w.check(c.SetCheck(ctx, site, "0123", forge.Check{Name: "lattice/run", State: forge.CheckFailure, Summary: "red"}))
		w.check(c.SetCheck(ctx, site, "0123", forge.Check{Name: "lattice/next", State: forge.CheckPending}))
		if n, dump := w.Minted(), w.Dump(); n != 2 || !strings.Contains(dump, "check 0123 lattice/run completedfailure run=true") || !strings.Contains(dump, "lattice/next in_progress run=true") {
			w.Errorf("%d tokens\n%s", n, dump)
		}
		if token, err := c.App().Mint(ctx, []string{"site"}, map[string]string{"contents": "read"}); err != nil || token != "ghs_site_read_3" {
			w.Errorf("minted %q, %v", token, err)
		}
		_, err = c.Repository(ctx, site) // with the token from before
		w.check(err)
		for name, wrong := range map[string]*github.Client{"another App": github.NewApp(w.URL, 8, 70, key, o), "another installation": github.NewApp(w.URL, 7, 71, key, o)} {
			if _, err := wrong.Repository(ctx, site); err == nil {
				w.Errorf("%s got a token", name)
			}
		}
		for _, bad := range []string{"", "no key", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"} {
			if _, err := github.ParseKey([]byte(bad)); err == nil {
				w.Errorf("%q is a key", bad)
			}
		}
	})
}
