package dashboard

import (
	"context"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// choosing is a leader with a run that asks which try to keep.
type choosing struct{ crowd }

func (c *choosing) Run(context.Context, string) (api.RunView, error) {
	return api.RunView{RunID: "run_1", Status: lattice.Waiting, Waits: []lattice.Wait{{ID: "w", Kind: lattice.WaitHuman, Node: "choose", Expected: map[string]string{"try": "integer"}}}}, nil
}

func (c *choosing) Candidates(context.Context, string) ([]api.Candidate, error) {
	return []api.Candidate{{Try: 0, State: "failed"}, {Try: 1, State: "done", Sprite: "run-1", URL: "http://run-1.localhost:1/", CostUSD: 0.5, Tests: &api.CandidateTests{Status: "passed", Total: 3}, Patch: "+<b>\n"}}, nil
}

// TestCandidates: each attempt has its sprite, URL, tests, cost and change, and one with a change can be chosen by the answer that
// lattice choose gives.
func TestCandidates(t *testing.T) {
	text := get(t, &choosing{}, "/runs/run_1/candidates")
	for _, want := range []string{"<code>run-1</code>", `href="http://run-1.localhost:1/"`, "passed", "$0.5000", "&lt;b&gt;", `action="/runs/run_1/decide"`, `name="in.try" value="1"`, digestOf(lattice.Wait{ID: "w", Kind: lattice.WaitHuman, Node: "choose", Expected: map[string]string{"try": "integer"}})} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(text, `name="in.try" value="0"`) {
		t.Error("an attempt without a change can be chosen")
	}
}
