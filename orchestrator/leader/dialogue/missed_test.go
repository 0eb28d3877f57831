package dialogue_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/lattice"
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
