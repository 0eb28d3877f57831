package intent

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

var ada = &audit.Who{Name: "ada", UID: 1}

func apply(t *testing.T, s State, facts ...Fact) State {
	t.Helper()
	for _, f := range facts {
		var err error
		if s, err = Apply(s, audit.Entry{Who: ada}, f); err != nil {
			t.Fatalf("%s: %v", f.Type, err)
		}
	}
	return s
}

func gated(t *testing.T) State {
	return apply(t, State{}, Fact{Type: FactProposed, ID: "int_1", Kind: "doc_update"}, Fact{Type: FactClassified, Class: "controlled"},
		Fact{Type: FactPlanned, Plan: &Plan{Version: 1, Flow: "a"}}, Fact{Type: FactGated, Decision: lattice.Ask})
}

func TestLife(t *testing.T) {
	t.Parallel()
	s := gated(t)
	approve := Fact{Type: FactApproved, Digest: s.Digest}
	s = apply(t, s, approve, Fact{Type: FactStarted, Run: "run_1", Digest: s.Digest}, Fact{Type: FactWaiting}, Fact{Type: FactResumed}, Fact{Type: FactEnded, Status: Succeeded})
	if s.Status != Succeeded || !s.Status.Ended() || s.Run != "run_1" || len(s.Approvals) != 1 {
		t.Errorf("state = %+v", s)
	}
}

func TestIllegalFacts(t *testing.T) {
	t.Parallel()
	proposed := apply(t, State{}, Fact{Type: FactProposed})
	ended := apply(t, gated(t), Fact{Type: FactRejected})
	for name, tt := range map[string]struct {
		s State
		f Fact
	}{
		"approval of another plan":   {gated(t), Fact{Type: FactApproved, Digest: "x"}},
		"approval before the gate":   {proposed, Fact{Type: FactApproved}},
		"start of another plan":      {gated(t), Fact{Type: FactStarted, Digest: "x"}},
		"start without approval":     {gated(t), Fact{Type: FactStarted, Digest: gated(t).Digest}},
		"start before a plan":        {proposed, Fact{Type: FactStarted}},
		"a version left out":         {gated(t), Fact{Type: FactPlanned, Plan: &Plan{Version: 3}}},
		"a plan after the rejection": {ended, Fact{Type: FactPlanned, Plan: &Plan{Version: 2}}},
		"approval after rejection":   {ended, Fact{Type: FactApproved, Digest: ended.Digest}},
		"cancel after the end":       {ended, Fact{Type: FactCanceled}},
		"an end before execution":    {gated(t), Fact{Type: FactEnded, Status: Succeeded}},
		"an unknown fact":            {gated(t), Fact{Type: "blessed"}},
		"proposed twice":             {gated(t), Fact{Type: FactProposed}},
	} {
		after, err := Apply(tt.s, audit.Entry{Who: ada}, tt.f)
		if !errors.Is(err, ErrTransition) || after.Status != tt.s.Status {
			t.Errorf("%s: %s, %v", name, after.Status, err)
		}
	}
	if _, err := Apply(gated(t), audit.Entry{}, Fact{Type: FactApproved, Digest: gated(t).Digest}); err == nil {
		t.Error("an approval of nobody counts")
	}
}

// A new version of the plan needs new approvals; each bound value changes the digest.
func TestApprovalsBindThePlan(t *testing.T) {
	t.Parallel()
	s := gated(t)
	s = apply(t, s, Fact{Type: FactApproved, Digest: s.Digest})
	old := s.Digest
	s = apply(t, s, Fact{Type: FactPlanned, Plan: &Plan{Version: 2, Flow: "a"}})
	if len(s.Approvals) != 0 || s.Digest == old {
		t.Errorf("approvals %v, digest %s", s.Approvals, s.Digest)
	}
	if _, err := Apply(s, audit.Entry{Who: ada}, Fact{Type: FactApproved, Digest: old}); err == nil {
		t.Error("an approval of the former version counts")
	}
	base := Plan{Version: 1, Flow: "f", FlowSum: "s", Input: json.RawMessage(`{}`), Repo: "r", Base: "b", Actions: []string{"A"}}
	for name, change := range map[string]func(*Plan){
		"version": func(p *Plan) { p.Version++ }, "flow": func(p *Plan) { p.Flow = "x" }, "flow sum": func(p *Plan) { p.FlowSum = "x" }, "input": func(p *Plan) { p.Input = json.RawMessage(`{"a":1}`) },
		"repo": func(p *Plan) { p.Repo = "x" }, "base": func(p *Plan) { p.Base = "x" }, "actions": func(p *Plan) { p.Actions = nil }, "keep": func(p *Plan) { p.Keep = true },
	} {
		p := base
		if change(&p); p.Digest() == base.Digest() {
			t.Errorf("the digest does not bind %s", name)
		}
	}
}

// TestDecisionsBindThePlan checks that a new version of the plan needs a new decision of the policy.
func TestDecisionsBindThePlan(t *testing.T) {
	t.Parallel()
	s := apply(t, State{}, Fact{Type: FactProposed}, Fact{Type: FactClassified}, Fact{Type: FactPlanned, Plan: &Plan{Version: 1}}, Fact{Type: FactGated, Decision: lattice.Allow},
		Fact{Type: FactPlanned, Plan: &Plan{Version: 2}})
	start := Fact{Type: FactStarted, Run: "run_1", Digest: s.Digest}
	if _, err := Apply(s, audit.Entry{Who: ada}, start); !errors.Is(err, ErrTransition) {
		t.Errorf("start of a version that the policy did not allow = %v, want %v", err, ErrTransition)
	}
	apply(t, s, Fact{Type: FactGated, Decision: lattice.Allow}, start)
}

// Whatever facts come in whatever order, a final status is never left, and nothing executes without a plan.
func TestRandomFacts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	types := []FactType{FactProposed, FactClassified, FactPlanned, FactGated, FactApproved, FactRefused, FactRejected, FactStarted, FactWaiting, FactResumed, FactEnded, FactCanceled}
	decisions := []lattice.Verdict{lattice.Allow, lattice.Ask, lattice.Deny}
	reached := map[Status]bool{}
	for range 20000 {
		s := State{}
		for range 12 {
			f := Fact{Type: types[r.IntN(len(types))], Digest: s.Digest, Plan: &Plan{Version: s.Plan.Version + 1}, Decision: decisions[r.IntN(3)], Status: []Status{Succeeded, Failed, Canceled}[r.IntN(3)], Run: "run"}
			next, err := Apply(s, audit.Entry{Who: ada}, f)
			if err != nil {
				continue
			}
			if s.Status.Ended() && next.Status != s.Status {
				t.Fatalf("%s became %s by %s", s.Status, next.Status, f.Type)
			}
			s = next
			reached[s.Status] = true
		}
	}
	for _, want := range []Status{Proposed, Classified, Gated, Executing, Waiting, Succeeded, Failed, Canceled, Rejected} {
		if !reached[want] {
			t.Errorf("%s was never reached", want)
		}
	}
}
