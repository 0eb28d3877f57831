package dialogue_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestMissed loses deliveries. GitHub repeats them when it is asked, and each is handled once.
func TestMissed(t *testing.T) {
	w := newWorld(t, forge.GitHub)
	w.SetRole(repository, "bot", forge.Admin)
	w.waiting(lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Expected: map[string]string{"answer": "string"}})
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	w.Comment(repository, "wilma", w.issue, "/lattice answer blue")
	w.Comment(repository, "wilma", w.issue, "/lattice cancel")
	all := w.Deliveries()
	for i := range all {
		if status, err := w.SendTo(t.Context(), down.URL, all[i]); err != nil || status != http.StatusNotFound {
			t.Fatalf("a delivery was answered with %d, %v", status, err)
		}
	}
	w.sent = len(all)
	for range 3 {
		if err := w.in.FetchMissed(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		w.deliver()
		if err := w.in.HandleAll(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.done(); strings.Count(got, "answer=blue") != 1 || strings.Count(got, "cancel run_1") != 1 {
		t.Errorf("the leader did %q", got)
	}
	if n := len(w.Deliveries()); n != 2*len(all) {
		t.Errorf("there were %d attempts of %d deliveries", n, len(all))
	}
	w.SetRole(repository, "bot", forge.Write) // may not see its webhooks
	if err := w.in.FetchMissed(t.Context(), "main"); err != nil {
		t.Error(err)
	}
}

// TestFork gives commands in a pull request from a fork.
func TestFork(t *testing.T) {
	eachPull(t, func(p *pullWorld) {
		p.MoveToFork(repository, 2, true)
		for text, outcome := range map[string]string{"/lattice plan": "refused: the pull request comes from a fork", "/lattice status": "status"} {
			p.Comment(repository, "wilma", 2, text)
			p.expect(outcome)
		}
		p.review("wilma", "APPROVED", "")
		p.expect("refused: the pull request comes from a fork")
	})
}
