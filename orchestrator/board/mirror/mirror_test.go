package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/gitea"
	"github.com/spritekit/lattice/orchestrator/forge/github"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

const site = "acme/site"

// newSource returns a code host, the source of its repository, and a board.
func newSource(t *testing.T, kind forge.Kind) (*forgetest.Server, Source, *board.Board) {
	t.Helper()
	host := forgetest.New(kind)
	t.Cleanup(host.Close)
	_, token := host.AddUser("lattice", "Bot")
	host.AddUser("ann", "User")
	host.AddRepository(site, t.TempDir())
	host.SetRole(site, "lattice", forge.Write)
	host.SetRole(site, "ann", forge.Triage)
	o := rest.Options{Token: func(context.Context) (string, error) { return token, nil }, Sleep: func(context.Context, time.Duration) error { return nil }}
	var c Client = github.New(host.URL, o)
	if kind == forge.Gitea {
		c = gitea.New(host.URL, o)
	}
	dir := t.TempDir()
	if err := board.Init(dir, board.DefaultConfig("LAT")); err != nil {
		t.Fatal(err)
	}
	b, err := board.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return host, Source{Forge: "main", Web: host.URL, Path: forge.Path{Owner: "acme", Name: "site"}, Client: func() (Client, error) { return c, nil }}, b
}

// describeSync syncs, and returns the outcomes in a line.
func describeSync(t *testing.T, s Source, b *board.Board) string {
	t.Helper()
	list, _, err := s.Sync(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, o := range list {
		words = append(words, o.Outcome+" "+o.Task.Name()+" "+o.Task.Status)
	}
	return strings.Join(words, ", ")
}

func TestSync(t *testing.T) {
	t.Parallel()
	for _, kind := range forge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			host, s, b := newSource(t, kind)
			host.OpenIssue(site, "ann", "  Uploads\nare lost ", "every day")
			host.OpenIssue(site, "ann", "Closed before", "")
			host.CloseIssue(site, "ann", 2)
			host.Label(site, "ann", 1, "bug")
			check := func(want string) {
				t.Helper()
				if got := describeSync(t, s, b); got != want {
					t.Errorf("Sync = %q, want %q", got, want)
				}
				if again := describeSync(t, s, b); again != "" {
					t.Errorf("a second Sync = %q", again)
				}
			}
			check("created LAT-1 backlog")
			task, err := b.Resolve("LAT-1")
			if err != nil || task.Title != "Uploads are lost" || task.Description != "every day" || task.Type != "bug" {
				t.Errorf("the task is %+v, %v", task, err)
			}
			move := func(to, reason string) {
				t.Helper()
				if _, _, err := b.Move(t.Context(), "LAT-1", "human:ada", to, reason); err != nil {
					t.Fatal(err)
				}
			}
			move("review", "")
			host.LoseAnswer("POST", "/labels")
			if _, _, err := s.Sync(t.Context(), b); err == nil {
				t.Error("a lost answer is not an error")
			}
			check("shown LAT-1 review")
			move(board.NeedsHuman, "Ask @ann.")
			host.LoseAnswer("POST", "/comments")
			if _, _, err := s.Sync(t.Context(), b); err == nil {
				t.Error("a lost answer is not an error")
			}
			check("shown LAT-1 needs_human")
			host.EditIssue(site, "ann", 1, "every night")
			host.CloseIssue(site, "ann", 1)
			check("updated LAT-1 cancelled, shown LAT-1 cancelled")
			dump := host.Dump()
			if strings.Count(dump, "board:") != 1 || !strings.Contains(dump, "board:cancelled") || strings.Count(dump, "comment "+site) != 1 {
				t.Errorf("the code host holds\n%s", dump)
			}
			if task, err = b.Resolve("LAT-1"); err != nil || task.Description != "every night" {
				t.Errorf("the task is %+v, %v", task, err)
			}
			again, err := board.Open(b.Root) // another process
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			lease, err := again.Lease("mirror")
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Sync(t.Context(), b); err == nil || !strings.Contains(err.Error(), "another process") {
				t.Errorf("beside another process Sync = %v", err)
			}
			if err := lease.Leave(); err != nil {
				t.Fatal(err)
			}
			move("backlog", "")
			check("shown LAT-1 backlog")
			if dump := host.Dump(); strings.Contains(dump, "board:") {
				t.Errorf("the code host holds\n%s", dump)
			}
		})
	}
}

// refusing is a client of a code host that does not let it label one issue.
type refusing struct {
	Client
	number int64
	err    error
}

func (r refusing) AddLabels(ctx context.Context, p forge.Path, number int64, labels []string) error {
	if number == r.number {
		return r.err
	}
	return r.Client.AddLabels(ctx, p, number, labels)
}

// An issue that the code host refuses to change does not keep others from showing the status of their tasks, and neither does a long
// reason. A code host that is not reached is not asked further.
func TestRefusedIssue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		shown string
	}{
		"moved":       {&forge.Problem{Status: 301, Message: "moved"}, "shown LAT-2 needs_human, shown LAT-3 review"},
		"locked":      {&forge.Problem{Status: 403}, "shown LAT-2 needs_human, shown LAT-3 review"},
		"not reached": {errors.New("no route"), ""},
		"failing":     {&forge.Problem{Status: 502}, ""},
	} {
		host, s, b := newSource(t, forge.GitHub)
		for _, title := range []string{"One", "Two", "Three"} {
			host.OpenIssue(site, "ann", title, "")
		}
		describeSync(t, s, b)
		for task, to := range map[string]string{"LAT-1": "review", "LAT-2": board.NeedsHuman, "LAT-3": "review"} {
			if _, _, err := b.Move(t.Context(), task, "human:ada", to, strings.Repeat("because ", 10_000)); err != nil {
				t.Fatal(err)
			}
		}
		client, err := s.Client()
		if err != nil {
			t.Fatal(err)
		}
		s.Client = func() (Client, error) { return refusing{client, 1, c.err}, nil }
		list, _, err := s.Sync(t.Context(), b)
		var words []string
		for _, o := range list {
			words = append(words, o.Outcome+" "+o.Task.Name()+" "+o.Task.Status)
		}
		if got := strings.Join(words, ", "); got != c.shown || !errors.Is(err, c.err) || !strings.Contains(err.Error(), "LAT-1") {
			t.Errorf("%s: Sync = %q, %v, want %q", name, got, err, c.shown)
		}
	}
}

// A task takes from its issue the changes that the issue had since it was last seen.
func TestFollow(t *testing.T) {
	t.Parallel()
	c := board.DefaultConfig("LAT")
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	reviewed := []board.Artifact{{ID: "a", Role: "review"}}
	issue := forge.Issue{ID: 7, Number: 1, Title: "t", Body: "b", Open: true, Labels: []string{"ui", LabelPrefix + "review"}, Updated: at}
	for _, tt := range []struct {
		name   string
		task   func(*board.Task)
		change func(*forge.Issue)
		want   string // changes, without that of the issue
	}{
		{"nothing", nil, func(*forge.Issue) {}, ""},
		{"a comment", nil, func(i *forge.Issue) { i.Updated = at.Add(1) }, ""},
		{"an old copy", nil, func(i *forge.Issue) { i.Title, i.Updated = "old", at.Add(-1) }, ""},
		{"text", nil, func(i *forge.Issue) { i.Title, i.Body = "u", "c" }, "title=u description=c"},
		{"labels", func(t *board.Task) { t.Labels = []string{"ui", "own"} }, func(i *forge.Issue) { i.Labels = []string{"help wanted"} }, "labels=own,help-wanted"},
		{"a label that a person took from the task", func(t *board.Task) { t.Labels = nil }, func(i *forge.Issue) { i.Labels = append(i.Labels, "net") }, "labels=net"},
		{"closed", nil, func(i *forge.Issue) { i.Open = false }, "status=cancelled"},
		{"closed behind a review", func(t *board.Task) { t.Artifacts = reviewed }, func(i *forge.Issue) { i.Open = false }, "status=done"},
		{"closed when done", func(t *board.Task) { t.Status = "done" }, func(i *forge.Issue) { i.Open = false }, "issue"},
		{"opened again", func(t *board.Task) { t.Issue.Open, t.Status = false, "done" }, func(*forge.Issue) {}, "status=backlog"},
		{"opened again, and in work", func(t *board.Task) { t.Issue.Open, t.Status = false, "review" }, func(*forge.Issue) {}, "issue"},
	} {
		seen := describeIssue(issue)
		task := board.NewTask("task_1")
		task.Title, task.Description, task.Status, task.Labels, task.Issue = "t", "b", "in_progress", []string{"ui"}, &seen
		if tt.task != nil {
			tt.task(task)
		}
		now := issue
		tt.change(&now)
		var words []string
		changes := followIssue(c, task, now)
		for i, ch := range changes {
			d, isChange := ch.Data.(board.ChangeData)
			switch {
			case isChange && d.Field == "":
				words = append(words, "status="+d.To)
			case isChange:
				words = append(words, d.Field+"="+d.To)
			case i != len(changes)-1 || ch.Type != board.IssueChanged:
				t.Errorf("%s: change %d is %+v", tt.name, i, ch)
			case i == 0:
				words = append(words, "issue")
			}
		}
		if got := strings.Join(words, " "); got != tt.want {
			t.Errorf("%s: follow = %q, want %q", tt.name, got, tt.want)
		}
		for _, ch := range changes { // they fit the task
			data, err := json.Marshal(ch.Data)
			if err != nil {
				t.Fatal(err)
			}
			if err := task.Apply(board.Event{Type: ch.Type, TaskID: task.ID, Data: data}); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if len(followIssue(c, task, now)) > 0 {
			t.Errorf("%s: a second follow changes the task", tt.name)
		}
	}
}

// Issues of strangers become tasks that the board takes.
func TestCreateHostile(t *testing.T) {
	t.Parallel()
	_, s, b := newSource(t, forge.GitHub)
	for n, i := range []forge.Issue{
		{}, {Title: strings.Repeat("é\x00", 5000)}, {Body: strings.Repeat("é", maxText)}, {Labels: []string{"", "a,b", strings.Repeat("x", 200), "bug", "bug"}},
	} {
		i.ID = int64(n)
		if _, _, err := b.Create(t.Context(), actor, s.idOf(i.ID), createTask(b.Config, i)); err != nil {
			t.Errorf("%.60s: %v", fmt.Sprint(i), err)
		}
	}
}

// TestTitleOf checks that a title is cut to one that the board stores unchanged.
func TestTitleOf(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		" two\n lines ":                 "two lines",
		" ":                             "Issue 7",
		strings.Repeat("é", maxTitle+1): strings.Repeat("é", maxTitle),
		strings.Repeat("é", maxTitle-1) + " and more": strings.Repeat("é", maxTitle-1),
	} {
		if got := titleOf(forge.Issue{Number: 7, Title: title}); got != want {
			t.Errorf("titleOf(%q) = %q, want %q", title, got, want)
		}
	}
}
