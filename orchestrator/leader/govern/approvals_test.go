package govern

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// newApprovals returns approvals under a policy.
func newApprovals(t *testing.T, rules string) *Approvals {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	layer, findings := policy.Parse("policy.toml", []byte(rules))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return &Approvals{
		Ledger: &Ledger{Store: s}, PolicyOf: func(context.Context, string) (policy.Policy, error) { return policy.New("", layer), nil },
		RepoOf: func(string) (string, string, bool) { return "/r", "r", true },
	}
}

// TestBotAnswers checks that a program cannot give an answer that approves, and a person can.
func TestBotAnswers(t *testing.T) {
	t.Parallel()
	yesOrNo := map[string]string{"approved": "boolean", "comments": "string"}
	approvals := newApprovals(t, "")
	for name, c := range map[string]struct {
		wait    lattice.Wait
		answer  lattice.Answered
		refused bool // of the program
	}{
		"approve":              {lattice.Wait{Kind: lattice.WaitHuman, Expected: yesOrNo}, lattice.Answered{Decision: lattice.Approve}, true},
		"reject":               {lattice.Wait{Kind: lattice.WaitHuman, Expected: yesOrNo}, lattice.Answered{Decision: lattice.Reject}, false},
		"answer yes":           {lattice.Wait{Kind: lattice.WaitHuman, Expected: yesOrNo}, lattice.Answered{Decision: lattice.Answer, Inputs: json.RawMessage(`{"approved":true}`)}, true},
		"answer yes to a call": {lattice.Wait{Kind: lattice.WaitSkill, Expected: yesOrNo}, lattice.Answered{Decision: lattice.Answer, Inputs: json.RawMessage(`{"approved":true,"comments":"x"}`)}, true},
		"answer no":            {lattice.Wait{Kind: lattice.WaitHuman, Expected: yesOrNo}, lattice.Answered{Decision: lattice.Answer, Inputs: json.RawMessage(`{"approved":false}`)}, false},
		"go on before a time":  {lattice.Wait{Kind: lattice.WaitSkill, ResumeAt: "2026-11-30T12:00:00Z"}, lattice.Answered{Decision: lattice.Answer, Inputs: json.RawMessage(`{}`)}, true},
		"answer a question":    {lattice.Wait{Kind: lattice.WaitHuman, Expected: map[string]string{"colour": "string"}}, lattice.Answered{Decision: lattice.Answer, Inputs: json.RawMessage(`{"colour":"true"}`)}, false},
		"a text of that name":  {lattice.Wait{Kind: lattice.WaitHuman, Expected: map[string]string{"approved": "string"}}, lattice.Answered{Decision: lattice.Answer, Inputs: json.RawMessage(`{"approved":"true"}`)}, false},
	} {
		c.wait.ID = name
		err := approvals.Answer(caller.With(t.Context(), audit.Who{Name: "ci-bot", UID: 1001}), "run1", c.wait, c.answer)
		if p := fault.As(err); (err != nil) != c.refused || c.refused && (p == nil || p.Code != "approval_denied") {
			t.Errorf("%s: a program gets %v", name, err)
		}
		if err := approvals.Answer(caller.With(t.Context(), audit.Who{Name: "ann", UID: 1000}), "run1", c.wait, c.answer); err != nil {
			t.Errorf("%s: a person gets %v", name, err)
		}
	}
}

// TestApproveAtOnce checks that both are counted when two people approve a push at the same moment.
func TestApproveAtOnce(t *testing.T) {
	t.Parallel()
	approvals := newApprovals(t, "[actions.PUSH_BRANCH]\napprove = { people = 2 }")
	for round := range 20 {
		a := pushTo(fmt.Sprintf("head%d", round), "fix")
		var ready, ended sync.WaitGroup
		ready.Add(2)
		approvals.RepoOf = func(string) (string, string, bool) {
			ready.Done()
			ready.Wait() // both have been asked
			return "/r", "r", true
		}
		errs := make([]error, 2)
		for i := range errs {
			ended.Go(func() {
				errs[i] = approvals.Decide(caller.With(t.Context(), audit.Who{Name: fmt.Sprintf("person%d", i), UID: 1000 + i}), a, "w1", lattice.Approve, "")
			})
		}
		ended.Wait()
		incomplete := 0
		for _, err := range errs {
			if p := fault.As(err); p != nil && p.Code == "approval_incomplete" && p.Exit == protocol.ExitWaiting {
				incomplete++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if incomplete != 1 {
			t.Fatalf("round %d: %d of 2 approvals say that another is missing, want 1", round, incomplete)
		}
	}
}
