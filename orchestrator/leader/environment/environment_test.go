package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/spritekit/fault"
)

// log is an audit log in memory.
type log struct{ entries []audit.Entry }

func (l *log) AddFact(_ context.Context, e audit.Entry, fact any, _ uint64) (audit.Entry, error) {
	for _, old := range l.entries {
		if e.Key != "" && old.Key == e.Key {
			return old, nil
		}
	}
	e.Seq, e.At, e.Who = uint64(len(l.entries)+1), time.Unix(int64(len(l.entries)), 0), &audit.Who{Name: "ada"}
	var err error
	e.Body, err = json.Marshal(fact)
	l.entries = append(l.entries, e)
	return e, err
}

func (l *log) AuditEntries(_ context.Context, _ string, after uint64, yield func(audit.Entry) error) error {
	for _, e := range l.entries[after:] {
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

// register returns a Register whose runs work on the repository /r.
func register(l *log) *Register {
	return &Register{Facts: l, AdmitPerson: func(context.Context, string, string, map[string]any) error { return nil }, Logger: zerolog.Nop(), OutputOf: func(string) io.Writer { return io.Discard },
		OptionsOf:  func(string) (api.Options, error) { return api.Options{Repo: "/r"}, nil },
		ResolveRun: func(id string) (string, error) { return id, nil },
		LoadRun: func(id string) (Run, error) {
			return Run{ID: id, Repo: "/r", Program: json.RawMessage(`{"entry_node":"a","nodes":[{"id":"a"}],"edges":[]}`), Failed: "inner"}, nil
		},
		StartRun: func(context.Context, api.RunRequest) (api.RunView, error) {
			return api.RunView{}, errors.New("not asked")
		}}
}

// event returns the entry of a proposal event.
func event(n int, kind, details string) lattice.Entry {
	body := fmt.Sprintf(`{"payload":{"observed_failure":{"phase":"bootstrap","exit_code":1,"stderr_hint":"x"},
		"suggested_adjustment":{"type":%q,"details":%s},"confidence":1,"evidence":["e"],"scope":"repo_specific"}}`, kind, details)
	return lattice.Entry{Kind: lattice.EntryEvent, Type: "ENVIRONMENT_PROPOSAL", Dedupe: fmt.Sprint(n), Body: json.RawMessage(body)}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	l := &log{}
	p := register(l)
	for n := range 30 { // of which a run may make 20
		if err := p.takeProposal(t.Context(), "run_1", event(n, "add_system_package", fmt.Sprintf(`{"packages":["package-%d"]}`, n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.takeProposal(t.Context(), "run_1", event(0, "add_system_package", `{"packages":["package-0"]}`)); err != nil { // the event is read again
		t.Fatal(err)
	}
	all, err := p.Proposals(t.Context(), api.ProposalList{Run: "run_1"})
	if err != nil || len(all) != maxPerRun || all[0].Count != 1 {
		t.Fatalf("%d proposals, %v, want %d, each made once", len(all), err, maxPerRun)
	}
	s, err := p.DecideProposal(t.Context(), all[3].ID[:6], api.ProposalDecision{Decision: lattice.Approve})
	if err != nil || s.Approval == nil || s.Approval.By != "ada" || s.Status != proposal.Pending {
		t.Errorf("approved: %+v, %v, want it to need a trial", s, err)
	}
	facts := len(l.entries)
	if _, err := p.DecideProposal(t.Context(), s.ID, api.ProposalDecision{Decision: lattice.Approve}); err != nil || len(l.entries) != facts {
		t.Errorf("approved twice: %v, %d facts more", err, len(l.entries)-facts)
	}

	if err := p.takeProposal(t.Context(), "run_2", event(0, "escalate_to_human", `{"question":"why?"}`)); err != nil {
		t.Fatal(err)
	}
	open, err := p.Proposals(t.Context(), api.ProposalList{Run: "run_2", Open: true})
	if err != nil || len(open) != 1 {
		t.Fatalf("%v, %v", open, err)
	}
	for code, do := range map[string]func() error{
		"proposal_not_found":    func() error { _, err := p.Proposal(t.Context(), "zz"); return err },
		"proposal_ambiguous":    func() error { _, err := prefix(p, all); return err },
		"proposal_unverifiable": func() error { _, err := p.VerifyProposal(t.Context(), open[0].ID, api.DriveRequest{}); return err },
	} {
		var f *fault.Error
		if err := do(); !errors.As(err, &f) || f.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	// The node that failed lies inside another one, so that the flow cannot be cut behind it.
	var f *fault.Error
	if _, err := p.VerifyProposal(t.Context(), all[0].ID, api.DriveRequest{}); !errors.As(err, &f) || f.Code != "proposal_unverifiable" {
		t.Errorf("%v, want proposal_unverifiable", err)
	}
	// Another process reads the same.
	again, err := register(l).Proposals(t.Context(), api.ProposalList{})
	if err != nil || len(again) != maxPerRun+1 {
		t.Errorf("read again: %d, %v", len(again), err)
	}
}

// prefix asks for a first letter that two of the proposals share.
func prefix(p *Register, all []proposal.State) (proposal.State, error) {
	seen := map[byte]bool{}
	for _, s := range all {
		if seen[s.ID[0]] {
			return p.Proposal(context.Background(), s.ID[:1])
		}
		seen[s.ID[0]] = true
	}
	return proposal.State{}, errors.New("no two ids begin alike")
}
