package spending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/budget"
)

// errKilled is the end of a process: the caller does not learn whether its last fact was recorded.
var errKilled = errors.New("the process was killed")

// mortal is the audit log of a process that is killed at a random one of its writes, before or after it.
type mortal struct {
	audit.Facts
	r      *rand.Rand
	writes int // until it is killed; never below 0
}

func (m *mortal) AddFact(ctx context.Context, e audit.Entry, fact any, after uint64) (audit.Entry, error) {
	if m.writes--; m.writes != 0 {
		return m.Facts.AddFact(ctx, e, fact, after)
	}
	if m.r.IntN(2) == 0 {
		if _, err := m.Facts.AddFact(ctx, e, fact, after); err != nil {
			return e, err
		}
	}
	return e, errKilled
}

// spendOp is an operation on the budget of one run: reserve, settle or raise.
type spendOp struct {
	verb string
	id   string
	n    int64
}

// spendState is the budget as one process alone would see it. It is comparable, so that orders with one outcome are one.
type spendState struct {
	spent, raised int64
	open          string // the open reservations, as a JSON object
}

const historyLimit = 100

// spendModel says what the operations may report: "ok" or "full".
var spendModel = porcupine.Model{
	Init: func() any { return spendState{open: "{}"} },
	Step: func(state, input, output any) (bool, any) {
		s, op, seen := state.(spendState), input.(spendOp), output.(string)
		held, taken := map[string]int64{}, s.spent
		if json.Unmarshal([]byte(s.open), &held) != nil {
			return false, s
		}
		for _, n := range held {
			taken += n
		}
		switch _, open := held[op.id]; {
		case op.verb == "raise":
			s.raised += op.n
		case op.verb == "settle" && open:
			s.spent += op.n
			delete(held, op.id)
		case op.verb == "settle": // its reservation never was
		case taken+op.n > historyLimit+s.raised:
			return seen != "ok", s
		default:
			held[op.id] = op.n
		}
		raw, err := json.Marshal(held)
		s.open = string(raw)
		return err == nil && seen != "full", s
	},
}

// hasEntry reports whether the fact of an operation was recorded.
func (w *world) hasEntry(op spendOp) (found bool) {
	key := map[string]string{"reserve": "reserved:", "settle": "settled:", "raise": "raised:"}[op.verb] + op.id
	if err := w.store.Audit(subject, 0, func(e audit.Entry) error {
		found = found || e.Key == key
		return nil
	}); err != nil {
		w.t.Error(err)
	}
	return found
}

// Eight processes reserve, settle and raise one budget at once, and are killed at random writes. The history is linearizable: no
// order of the operations lets the calls take more than the limit, and no amount is lost or counted twice.
func TestHistoryOfABudget(t *testing.T) {
	w := newWorld(t, fmt.Sprintf("budgets.run.tokens = %d", historyLimit))
	const processes, each = 8, 4
	var mu sync.Mutex
	var history []porcupine.Operation
	var clock, killed atomic.Int64
	var all sync.WaitGroup
	for p := range processes {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(p), 11))
			var k *Keeper
			start := func() {
				k = w.keeper()
				k.Facts = &mortal{k.Facts, r, 1 + r.IntN(6)}
			}
			start()
			do := func(op spendOp, call func() error) (ok bool) {
				begun, seen := clock.Add(1), "ok"
				err := call()
				ended := clock.Add(1)
				switch {
				case err == nil:
				case isExhausted(err):
					seen = "full"
				case errors.Is(err, errKilled):
					killed.Add(1)
					start()
					if !w.hasEntry(op) {
						return false // a dead process does nothing any more
					}
				default:
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				history = append(history, porcupine.Operation{ClientId: len(history), Input: op, Call: begun, Output: seen, Return: ended})
				return seen == "ok"
			}
			for i := range each {
				id, n := fmt.Sprintf("r/%d.%d", p, i), int64(10+r.IntN(30))
				if r.IntN(5) == 0 {
					do(spendOp{"raise", id, n}, func() error {
						_, err := k.RaiseBudget(t.Context(), api.RaiseRequest{Scope: "run:r", By: budget.Amount{Tokens: n}, Key: id})
						return err
					})
					continue
				}
				c := Call{Run: "r", ID: id, Name: "question", Need: budget.Need{Most: budget.Amount{Tokens: n}}}
				if !do(spendOp{"reserve", id, n}, func() error { _, err := k.Reserve(t.Context(), c); return err }) {
					continue
				}
				spent := r.Int64N(n + 1)
				do(spendOp{"settle", id, spent}, func() error {
					return k.Settle(t.Context(), id, budget.Amount{Tokens: spent}, "", "")
				})
			}
		})
	}
	all.Wait()
	if killed.Load() == 0 {
		t.Error("no process was killed")
	}
	if !porcupine.CheckOperations(spendModel, history) {
		t.Errorf("the history is not linearizable: %+v", history)
	}
	if a := w.account("run:r"); a.Spent.Tokens+a.Reserved.Tokens > historyLimit+a.Raised.Tokens {
		t.Errorf("more is taken than the limit: %+v", a)
	}
}
