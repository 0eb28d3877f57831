package environment

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/proposal"
)

// The next run on a repository has the change that the repository's CI has accepted since. Nothing else does: no verdict, a red
// one, one of a run that did not make the proposal, or a code host that does not answer.
func TestGreenCIAcceptsProposal(t *testing.T) {
	t.Parallel()
	l := &log{}
	p := register(l)
	verdicts := map[string]bool{"run_2": true}
	var down error
	p.ReadCI = func(_ context.Context, run, repo string) (string, bool, bool, error) {
		green, ok := verdicts[run]
		return "c0ffee", green, ok && repo == "/r", down
	}
	if err := p.takeProposal(t.Context(), "run_1", event(0, "add_preinstall_step", `{"argv":["make"]}`)); err != nil {
		t.Fatal(err)
	}
	flow := json.RawMessage(`{"entry_node":"a","nodes":[{"id":"a","tool":"git.clone"}],"edges":[]}`)
	next := func() int {
		o := api.Options{Repo: "/r"}
		if _, err := p.Adjust(t.Context(), flow, &o); err != nil {
			t.Fatal(err)
		}
		return len(o.Environment)
	}
	facts := func() int { return len(l.entries) }
	if n := next(); n != 0 || facts() != 1 {
		t.Errorf("without a verdict about its run: %d changes, %d facts", n, facts())
	}
	verdicts["run_1"] = false
	for range 2 {
		if n := next(); n != 0 || facts() != 2 {
			t.Errorf("with a red CI: %d changes, %d facts", n, facts())
		}
	}
	verdicts["run_1"], down = true, errors.New("down")
	if n := next(); n != 0 {
		t.Errorf("with a code host that is down: %d changes", n)
	}
	down = nil
	if n := next(); n != 1 || facts() != 3 {
		t.Errorf("with a green CI: %d changes, %d facts", n, facts())
	}
	all, err := p.Proposals(t.Context(), api.ProposalList{})
	if err != nil || all[0].Status != proposal.Verified || all[0].CI == nil || all[0].CI.Commit != "c0ffee" || all[0].CI.Run != "run_1" {
		t.Errorf("Proposals = %+v, %v", all, err)
	}
}
