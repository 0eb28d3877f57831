// Package threadtest is a code host with people, and parts of the leader that speak with them, for tests. Start with [World]. The leader
// behind it is [Leader], which decides nothing.
package threadtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/gitea"
	"github.com/spritekit/lattice/orchestrator/forge/github"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/inbox"
	"github.com/spritekit/lattice/orchestrator/leader/scribe"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Repository is the repository of the code host, Secret signs its webhooks, and Name is the thread that is its first issue.
const (
	Repository = "acme/site"
	Secret     = "0123456789abcdef"
	Name       = "main:acme/site#1"
)

// World is a code host with people, and a dialogue that listens to its webhooks.
type World struct {
	*testing.T
	*forgetest.Server
	*Leader
	*govern.Ledger
	In      *inbox.Inbox
	Talk    *dialogue.Dialogue
	Bot     forge.Client // as the account of lattice
	Issue   int
	Sent    int // deliveries that the inbox got
	HookURL string
}

// Deliver sends the deliveries that were not sent.
func (w *World) Deliver() {
	w.Helper()
	all := w.Deliveries()
	for ; w.Sent < len(all); w.Sent++ {
		if status, err := w.Send(w.Context(), all[w.Sent]); err != nil || status != http.StatusAccepted {
			w.Fatalf("a delivery was answered with %d, %v", status, err)
		}
	}
}

// NewWorld returns a world with the people wilma, who may write, rob, who may read, and sue, a stranger.
func NewWorld(t *testing.T, kind forge.Kind) *World {
	w := &World{T: t, Server: forgetest.New(kind), Leader: &Leader{Changed: make(chan api.RunView)}}
	t.Cleanup(w.Close)
	w.AddUser("lattice", "Bot")
	_, token := w.AddUser("bot", "User")
	w.AddRepository(Repository, filepath.Join(t.TempDir(), "site.git"))
	w.SetRole(Repository, "bot", map[forge.Kind]forge.Role{forge.GitHub: forge.Write, forge.Gitea: forge.Admin}[kind])
	for login, role := range map[string]forge.Role{"wilma": forge.Write, "rob": forge.Read, "sue": ""} {
		w.AddUser(login, "User")
		if role != "" {
			w.SetRole(Repository, login, role)
		}
	}
	clock := time.Unix(1_000_000, 0)
	o := rest.Options{Token: func(context.Context) (string, error) { return token, nil }, Now: func() time.Time { return clock }, Sleep: func(context.Context, time.Duration) error { return nil }}
	if w.Bot = gitea.New(w.URL, o); kind == forge.GitHub {
		w.Bot = github.New(w.URL, o)
	}
	s, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ledger := &govern.Ledger{Store: s}
	w.Ledger = ledger
	talk := &dialogue.Dialogue{Hosts: map[string]dialogue.Host{"main": {Client: func() (dialogue.Client, error) { return w.Bot, nil }}}, Facts: ledger, Runs: w.Leader, Logger: zerolog.Nop()}
	w.Talk = talk
	path, _ := forge.ParsePath(Repository)
	w.In = inbox.New(map[string]inbox.Host{"main": {Secret: func() (string, error) { return Secret, nil }, Repositories: []forge.Path{path}, Client: func() (inbox.Client, error) { return w.Bot, nil }}}, ledger,
		func(ctx context.Context, host string, d hook.Delivery) (string, error) {
			return talk.Handle(ctx, host, d)
		}, zerolog.Nop())
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := w.In.ReceiveHook(rw, r, "main"); err != nil {
			exchange.Fail(rw, err)
			return
		}
		rw.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	w.In.Settled = talk.Settled
	w.HookURL = server.URL + "/hooks/main"
	w.AddHook(Repository, w.HookURL, Secret)
	w.Issue = w.OpenIssue(Repository, "wilma", "It hangs", "Please mend it.")
	return w
}

// Handle handles the deliveries that came, and returns the outcome of the last.
func (w *World) Handle() string {
	w.Helper()
	w.Deliver()
	if err := w.In.HandleAll(w.Context(), "main"); err != nil {
		w.Fatal(err)
	}
	all, err := w.In.Deliveries(w.Context(), "main", 1)
	if err != nil || len(all) != 1 || !all[0].Handled {
		w.Fatalf("the last delivery is %+v, %v", all, err)
	}
	return all[0].Outcome
}

// Say writes a comment and returns the outcome of its delivery.
func (w *World) Say(login, body string) string {
	w.Helper()
	w.Comment(Repository, login, w.Issue, body)
	return w.Handle()
}

// Done returns the calls to the leader since the last time.
func (w *World) Done() string {
	w.Mu().Lock()
	defer w.Mu().Unlock()
	all := strings.Join(w.Did, "\n")
	w.Did = nil
	return all
}

// Replies returns the comments that lattice wrote.
func (w *World) Replies() (all []string) {
	w.Helper()
	self, err := w.Bot.Self(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	path, _ := forge.ParsePath(Repository)
	comments, err := w.Bot.Comments(w.Context(), path, int64(w.Issue))
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range comments {
		if c.Author.ID == self.ID {
			all = append(all, c.Body)
		}
	}
	return all
}

// EachKind runs a test with each kind of code host, at the same time.
func EachKind(t *testing.T, test func(w *World)) {
	for _, kind := range forge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(NewWorld(t, kind))
		})
	}
}

// SetWait gives the thread a run with a wait.
func (w *World) SetWait(wait lattice.Wait) (digest string) {
	w.Known = []api.RunView{{RunID: "run_1", WorkItem: Name, Status: lattice.Waiting, Waits: []lattice.Wait{wait}}}
	return presence.Digest("run_1", wait)
}

// NewScribe returns a scribe that knows only the audit log, as after a restart.
func (w *World) NewScribe() *scribe.Scribe {
	hosts := map[string]scribe.Host{"main": {Client: func() (scribe.Client, error) { return w.Bot, nil }}}
	return &scribe.Scribe{Hosts: hosts, Facts: w.Ledger, Runs: w.Leader, Settle: w.Talk.Settle, Logger: zerolog.Nop()}
}

// ShowOnce has a scribe show the thread.
func (w *World) ShowOnce(s *scribe.Scribe) error {
	name, _ := thread.Parse(Name)
	return s.Show(w.Context(), name)
}

// Show has a scribe show the thread, and requires the beginnings of the comments that are there then.
func (w *World) Show(s *scribe.Scribe, want ...string) {
	w.Helper()
	if err := w.ShowOnce(s); err != nil {
		w.Fatal(err)
	}
	got := w.Replies()
	if len(got) != len(want) {
		w.Fatalf("there are %d comments, not %d: %q", len(got), len(want), got)
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			w.Errorf("comment %d does not say %q:\n%s", i, want[i], got[i])
		}
	}
}

// Gate gives the thread an intent that people have to approve.
func (w *World) Gate(id, prompt string) intent.State {
	p := intent.Plan{Version: 1, Flow: "pull-request", Repo: "https://example.com/acme/site", Base: "abc", Input: []byte(`{"prompt":"` + prompt + `","context":[{"path":"trigger.md","content":"secret text"}]}`), AgentEnv: []string{"MODEL_KEY", "HOME_KEY"}}
	s := intent.State{ID: id, Kind: "pr_create_from_plan", Subject: Name, Status: intent.Gated, Decision: lattice.Ask, Plan: p, Digest: p.Digest(), ProposedBy: &audit.Who{Name: "main:7"}}
	w.Gated = append(w.Gated, s)
	return s
}
