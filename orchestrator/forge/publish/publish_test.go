package publish_test

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/gitea"
	"github.com/spritekit/lattice/orchestrator/forge/github"
	"github.com/spritekit/lattice/orchestrator/forge/publish"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

// A world is a publisher and its code host. Nothing in it sleeps.
type world struct {
	*testing.T
	*forgetest.Server
	publisher *publish.Publisher
	place     forge.Place
}

func eachKind(t *testing.T, test func(w *world)) {
	for _, kind := range forge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			w := &world{T: t, Server: forgetest.New(kind)}
			t.Cleanup(w.Close)
			dir := filepath.Join(t.TempDir(), "site")
			for _, line := range [][]string{{"init", "-q", "-b", "main", dir}, {"-C", dir, "commit", "-q", "--allow-empty", "-m", "one"}, {"-C", dir, "branch", "fix"}, {"-C", dir, "checkout", "-q", "fix"}, {"-C", dir, "commit", "-q", "--allow-empty", "-m", "two"}, {"-C", dir, "checkout", "-q", "main"}} {
				if out, err := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@localhost"}, line...)...).CombinedOutput(); err != nil {
					t.Fatalf("git %q: %v\n%s", line, err, out)
				}
			}
			_, token := w.AddUser("lattice", "Bot")
			w.AddUser("ann", "User")
			w.AddRepository("acme/site", filepath.Join(dir, ".git"))
			w.SetRole("acme/site", "lattice", forge.Write)
			o := rest.Options{Token: func(context.Context) (string, error) { return token, nil }, Sleep: func(context.Context, time.Duration) error { return nil }}
			var c publish.Client = github.New(w.URL, o)
			if kind == forge.Gitea {
				c = gitea.New(w.URL, o)
			}
			w.publisher = &publish.Publisher{Hosts: map[string]publish.Host{"main": {Web: w.URL, Repositories: []forge.Path{{Owner: "Acme", Name: "site"}}, Client: func() (publish.Client, error) { return c, nil }}}}
			place, ok, err := w.publisher.Find(t.Context(), w.URL+"/acme/site.git")
			if err != nil || !ok || place.Forge != "main" || place.DefaultBranch != "main" || place.RepositoryID == 0 {
				t.Fatalf("Find = %+v, %t, %v", place, ok, err)
			}
			w.place = place
			test(w)
		})
	}
}

var fix = forge.NewPull{Title: "Fix it", Body: "text", Head: "fix", Base: "main", Draft: true}

// Each effect happens once, although the answer to its first attempt is lost.
func TestOnce(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		n := int64(w.OpenIssue("acme/site", "ann", "x", ""))
		w.LoseAnswer("POST", "/pulls")
		if _, err := w.publisher.OpenPull(ctx, w.place, "k1", fix); err == nil {
			w.Error("a lost answer is not an error")
		}
		w.LoseAnswer("POST", "/comments")
		if _, err := w.publisher.PostComment(ctx, w.place, forge.Attempt{Key: "k2"}, n, "hello"); err == nil {
			w.Error("a lost answer is not an error")
		}
		for range 2 {
			pr, err := w.publisher.OpenPull(ctx, w.place, "k1", fix)
			if err != nil || pr.Status != forge.Opened || pr.Number != n+1 || !strings.HasPrefix(pr.URL, w.URL) {
				w.Errorf("OpenPull = %+v, %v", pr, err)
			}
			c, err := w.publisher.PostComment(ctx, w.place, forge.Attempt{Key: "k2"}, n, "hello")
			if err != nil || c.Status != forge.Posted || !strings.HasPrefix(c.URL, w.URL) {
				w.Errorf("PostComment = %+v, %v", c, err)
			}
			if err := w.publisher.AddLabels(ctx, w.place, n, []string{"bug"}); err != nil {
				w.Error(err)
			}
		}
		dump := w.Dump()
		for part, want := range map[string]int{"pull ": 1, "comment ": 1, "label ": 1} {
			if got := strings.Count("\n"+dump, "\n"+part); got != want {
				w.Errorf("%d times %q in\n%s", got, part, dump)
			}
		}
	})
}

// A comment that is listed late is found, and not written again.
func TestLateList(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx, looks := t.Context(), 0
		n := int64(w.OpenIssue("acme/site", "ann", "x", ""))
		w.publisher.Sleep = func(context.Context, time.Duration) error { looks++; return nil }
		w.LoseAnswer("POST", "/comments")
		if _, err := w.publisher.PostComment(ctx, w.place, forge.Attempt{Key: "k"}, n, "hello"); err == nil || looks != 0 {
			w.Errorf("a lost answer is not an error: %v, %d looks", err, looks)
		}
		w.Lag(3)
		for range 2 {
			if _, err := w.publisher.PostComment(ctx, w.place, forge.Attempt{Key: "k", Earlier: time.Now()}, n, "hello"); err != nil {
				w.Error(err)
			}
		}
		if looks != 3 || strings.Count(w.Dump(), "comment acme/site#1 by lattice") != 1 {
			w.Errorf("%d looks\n%s", looks, w.Dump())
		}
		// One that was never written is written in the end.
		if _, err := w.publisher.PostComment(ctx, w.place, forge.Attempt{Key: "other", Earlier: time.Now()}, n, "world"); err != nil || strings.Count(w.Dump(), "world") != 1 {
			w.Errorf("%v\n%s", err, w.Dump())
		}
	})
}

// The marker of a person does not count: lattice writes its own comment. An open pull request of the same branches does.
func TestOthers(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		n := int64(w.OpenIssue("acme/site", "ann", "x", ""))
		w.Comment("acme/site", "ann", int(n), forge.MarkerOf("action", "k2").Add("hello"))
		if _, err := w.publisher.PostComment(ctx, w.place, forge.Attempt{Key: "k2"}, n, "hello"); err != nil || strings.Count(w.Dump(), "comment acme/site#1 by lattice") != 1 {
			w.Errorf("%v\n%s", err, w.Dump())
		}
		if _, err := w.publisher.OpenPull(ctx, w.place, "k1", fix); err != nil {
			w.Fatal(err)
		}
		pr, err := w.publisher.OpenPull(ctx, w.place, "k3", fix)
		if err != nil || pr.Status != forge.AlreadyOpen || pr.Number != n+1 {
			w.Errorf("OpenPull = %+v, %v", pr, err)
		}
	})
}

// A repository that took the name of the approved one is not written to, nor one that the settings do not name.
func TestPlace(t *testing.T) {
	eachKind(t, func(w *world) {
		other := w.place
		other.RepositoryID++
		_, err := w.publisher.PostComment(t.Context(), other, forge.Attempt{Key: "k"}, 1, "hello")
		if p, ok := errors.AsType[*forge.Problem](err); !ok || !p.Final() || p.Status != http.StatusConflict {
			w.Errorf("another repository: %v", err)
		}
		other = w.place
		other.Forge = "gone"
		if err := w.publisher.AddLabels(t.Context(), other, 1, []string{"x"}); err == nil {
			w.Error("a code host that is not in the settings was used")
		}
		for _, spec := range []string{"", "/srv/site", w.URL + "/acme/other.git", "https://example.com/acme/site"} {
			if _, ok, err := w.publisher.Find(t.Context(), spec); ok || err != nil {
				w.Errorf("Find(%q) = %t, %v", spec, ok, err)
			}
		}
	})
}

// Issues are opened once, although the answer to the first attempt is lost, also in a later round with more of them.
func TestOpenIssuesOnce(t *testing.T) {
	eachKind(t, func(w *world) {
		ctx := t.Context()
		keys, all := []string{"seed.md a", "seed.md b"}, []forge.NewIssue{{Title: "A", Body: "for @ann"}, {Title: "B"}}
		w.LoseAnswer("POST", "/issues$")
		if _, err := w.publisher.OpenIssues(ctx, w.place, time.Time{}, keys, all); err == nil {
			w.Error("a lost answer is not an error")
		}
		for _, want := range []string{forge.Opened, forge.AlreadyOpen} {
			done, err := w.publisher.OpenIssues(ctx, w.place, time.Time{}, keys, all)
			if err != nil || len(done) != 2 || done[0].Status != forge.AlreadyOpen || done[1].Status != want || done[0].Number == done[1].Number || done[1].URL == "" {
				w.Errorf("OpenIssues = %+v, %v; want the second %s", done, err, want)
			}
		}
		done, err := w.publisher.OpenIssues(ctx, w.place, time.Time{}, []string{"seed.md c", "seed.md a"}, []forge.NewIssue{{Title: "C"}, {Title: "Another title"}})
		if err != nil || done[0].Status != forge.Opened || done[1].Status != forge.AlreadyOpen {
			w.Errorf("another round: %+v, %v", done, err)
		}
		if state := w.Dump(); strings.Count(state, "issue acme/site#") != 3 || strings.Contains(state, "@ann") {
			w.Errorf("the state is\n%s", state)
		}
	})
}
