package dialogue_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/orchestrator/leader/thread/threadtest"
)

// TestMissed loses deliveries. GitHub repeats them when it is asked, and each is handled once.
func TestMissed(t *testing.T) {
	w := threadtest.NewWorld(t, forge.GitHub)
	w.SetRole(threadtest.Repository, "bot", forge.Admin)
	w.SetWait(lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Expected: map[string]string{"answer": "string"}})
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	w.Comment(threadtest.Repository, "wilma", w.Issue, "/lattice answer blue")
	w.Comment(threadtest.Repository, "wilma", w.Issue, "/lattice cancel")
	all := w.Deliveries()
	for i := range all {
		if status, err := w.SendTo(t.Context(), down.URL, all[i]); err != nil || status != http.StatusNotFound {
			t.Fatalf("a delivery was answered with %d, %v", status, err)
		}
	}
	w.Sent = len(all)
	for range 3 {
		if err := w.In.FetchMissed(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		w.Deliver()
		if err := w.In.HandleAll(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Done(); strings.Count(got, "answer=blue") != 1 || strings.Count(got, "cancel run_1") != 1 {
		t.Errorf("the leader did %q", got)
	}
	if n := len(w.Deliveries()); n != 2*len(all) {
		t.Errorf("there were %d attempts of %d deliveries", n, len(all))
	}
	w.SetRole(threadtest.Repository, "bot", forge.Write) // may not see its webhooks
	if err := w.In.FetchMissed(t.Context(), "main"); err != nil {
		t.Error(err)
	}
}

// TestFork gives commands in a pull request from a fork.
func TestFork(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		p.MoveToFork(threadtest.Repository, 2, true)
		for text, outcome := range map[string]string{"/lattice plan": "refused: the pull request comes from a fork", "/lattice status": "status"} {
			p.Comment(threadtest.Repository, "wilma", 2, text)
			p.Expect(outcome)
		}
		p.AddReview("wilma", "APPROVED", "")
		p.Expect("refused: the pull request comes from a fork")
	})
}

// TestTickInFork ticks a box in a pull request from a fork.
func TestTickInFork(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		const name = "main:acme/site#2"
		wait := lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?"}
		p.Known = []api.RunView{{RunID: "run_1", WorkItem: name, Status: lattice.Waiting, Waits: []lattice.Wait{wait}}}
		question := forge.MarkerOf("post", name+" wait:run_1:w1:"+presence.Digest("run_1", wait)).Add(presence.Question("run_1", wait))
		for _, c := range []struct {
			fork, taken bool // taken: the settings take commands from forks
			outcome     string
			did         []string
		}{
			{true, false, "refused: the pull request comes from a fork, and forges.main.forks is not set", nil},
			{true, true, "approve run_1", []string{"approve run_1 w1"}},
			{false, false, "approve run_1", []string{"approve run_1 w1"}},
		} {
			host := p.Talk.Hosts["main"]
			host.Forks = c.taken
			p.Talk.Hosts["main"] = host
			p.MoveToFork(threadtest.Repository, 2, c.fork)
			id := p.Comment(threadtest.Repository, "bot", 2, question)
			p.EditComment(threadtest.Repository, "wilma", id, strings.Replace(question, "- [ ] approve", "- [x] approve", 1))
			p.Expect(c.outcome, c.did...)
		}
	})
}

// TestTickOtherSpelling ticks boxes of questions whose run or intent spells the repository with other letters than the code host does.
func TestTickOtherSpelling(t *testing.T) {
	threadtest.EachPull(t, func(p *threadtest.PullWorld) {
		const spelled = "main:Acme/SITE#2"
		record := func(kind audit.Kind, subject string, body any) {
			if err := p.Record(p.Context(), kind, subject, "", body); err != nil {
				t.Fatal(err)
			}
		}
		record(audit.Pull, "pull:main:acme/site#2", map[string]any{"run_id": "run_2"})
		place := map[string]any{"forge": "main", "path": map[string]string{"owner": "Acme", "name": "SITE"}, "repository_id": 1, "default_branch": "main"}
		record(audit.ActionPerformed, audit.Run("run_2"), map[string]any{"action": "OPEN_PR", "of": "k", "binding": map[string]any{"remote": "r", "branch": "fix", "place": place},
			"result": map[string]any{"status": "opened", "number": 2, "branch": "fix", "head": p.First}})
		wait := lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?"}
		p.Known = []api.RunView{{RunID: "run_2", WorkItem: "w", Status: lattice.Waiting, Waits: []lattice.Wait{wait}}}
		gated := p.Gate("int_1", "Paint it.")
		p.Gated[0].Subject, gated.Subject = spelled, spelled
		for _, q := range thread.ListRequests(p.Known, []intent.State{gated}) {
			body, _ := q.Question()
			question := forge.MarkerOf("post", spelled+" "+q.Key()).Add(body)
			id := p.Comment(threadtest.Repository, "bot", 2, question)
			p.EditComment(threadtest.Repository, "wilma", id, strings.Replace(question, "- [ ] approve", "- [x] approve", 1))
			p.Expect("approve ", "approve ")
			other := strings.Replace(question, "<!-- lattice post ", "<!-- lattice action ", 1)
			id = p.Comment(threadtest.Repository, "bot", 2, other)
			p.EditComment(threadtest.Repository, "wilma", id, strings.Replace(other, "- [ ] approve", "- [x] approve", 1))
			p.Expect("refused: the edited text is not an open question")
		}
	})
}
