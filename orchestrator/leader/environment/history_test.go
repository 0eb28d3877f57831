package environment

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/store"
)

// errKilled is the end of a process: the caller does not learn whether its last fact was recorded.
var errKilled = errors.New("the process was killed")

// mortal is the audit log of a process that is killed at some of its writes, before or after them.
type mortal struct {
	audit.Facts
	r *rand.Rand
}

func (m mortal) AddFact(ctx context.Context, e audit.Entry, fact any, after uint64) (audit.Entry, error) {
	switch m.r.IntN(6) {
	case 0:
		return e, errKilled
	case 1:
		if _, err := m.Facts.AddFact(ctx, e, fact, after); err != nil {
			return e, err
		}
		return e, errKilled
	}
	return m.Facts.AddFact(ctx, e, fact, after)
}

// decisionModel is a proposal as one process alone would see it: the last decision holds. A decision reports nothing.
var decisionModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if input == "look" {
			return output == state, state
		}
		return true, input
	},
}

// Eight processes propose the same change, approve it, reject it and look at it at once, and are killed at random writes. The
// history is linearizable, and the same proposal of one run counts once.
func TestHistoryOfAProposal(t *testing.T) {
	t.Parallel()
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ledger := &govern.Ledger{Store: s}
	process := func(facts audit.Facts) *Register {
		p := register(nil)
		p.Facts = facts
		return p
	}
	first := process(ledger)
	asked := event(0, "add_system_package", `{"packages":["jq"]}`)
	if err := first.takeProposal(t.Context(), "run_1", asked); err != nil {
		t.Fatal(err)
	}
	proposed, err := first.Proposals(t.Context(), api.ProposalList{})
	if err != nil || len(proposed) != 1 {
		t.Fatalf("%d proposals, %v", len(proposed), err)
	}
	id := proposed[0].ID
	var mu sync.Mutex
	var history []porcupine.Operation
	var clock, killed atomic.Int64
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 5))
			p := process(mortal{ledger, r})
			for range 8 {
				op := []string{"approve", "reject", "look", "look"}[r.IntN(4)]
				begun, seen := clock.Add(1), ""
				var err error
				if op == "look" {
					found, failed := p.Proposal(t.Context(), id)
					if err = failed; err == nil && found.Approval != nil {
						seen = map[bool]string{true: "approve", false: "reject"}[found.Approval.Approved]
					}
				} else {
					_, err = p.DecideProposal(t.Context(), id, api.ProposalDecision{Decision: lattice.Decision(op)})
				}
				ended := clock.Add(1)
				if errors.Is(err, errKilled) {
					ended = 1 << 40 // it may have taken effect at any time, or never
					killed.Add(1)
					p = process(mortal{ledger, r})
					if err := p.takeProposal(t.Context(), "run_1", asked); err != nil && !errors.Is(err, errKilled) { // the event is read again
						t.Error(err)
					}
				} else if err != nil {
					t.Error(err)
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: len(history), Input: op, Call: begun, Output: seen, Return: ended})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if killed.Load() == 0 {
		t.Error("no process was killed")
	}
	if !porcupine.CheckOperations(decisionModel, history) {
		t.Errorf("the history is not linearizable: %+v", history)
	}
	if last, err := process(ledger).Proposal(t.Context(), id); err != nil || last.Count != 1 {
		t.Errorf("the proposal counts %d times, %v", last.Count, err)
	}
}
