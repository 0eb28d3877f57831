package spending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// world is a store, a policy and a clock. keeper returns a Keeper on it; each is a process of its own.
type world struct {
	t     *testing.T
	store *store.Store
	text  string
	now   atomic.Int64 // seconds
}

func newWorld(t *testing.T, text string) *world {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if report, err := s.Check(context.Background(), nil); err != nil || len(report) > 0 {
			t.Errorf("check of the store: %v %v", report, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, store: s, text: text}
	w.now.Store(time.Date(2026, 11, 23, 23, 0, 0, 0, time.UTC).Unix())
	return w
}

func (w *world) keeper() *Keeper {
	layers := func() ([]policy.Layer, error) {
		l, findings := policy.Parse("policy.toml", []byte(w.text))
		if len(findings) > 0 {
			return nil, errors.New(findings[0].Text())
		}
		return []policy.Layer{l}, nil
	}
	return &Keeper{
		Facts: &govern.Ledger{Store: w.store}, Server: layers,
		PolicyOf: func(context.Context, string) (policy.Policy, error) {
			l, err := layers()
			return policy.New("", l...), err
		},
		OptionsOf: func(run string) (string, history.Options, error) {
			var o history.Options
			if origin, ok := strings.CutPrefix(run, "fork-of-"); ok {
				o.Account = origin
			}
			return run, o, nil
		},
		ResolveRun: func(id string) (string, error) { return id, nil },
		Now:        func() time.Time { return time.Unix(w.now.Load(), 0) },
	}
}

// account returns the state of a scope, read by a new process.
func (w *world) account(s budget.Scope) (a budget.Account) {
	w.t.Helper()
	if err := w.keeper().refresh(w.t.Context(), func(l *budget.Ledger, _ uint64) { a = l.Account(s) }); err != nil {
		w.t.Fatal(err)
	}
	return a
}

func tokens(run, id string, n int64) Call {
	return Call{Run: run, ID: run + "/" + id, Name: "question", Need: budget.Need{Most: budget.Amount{Tokens: n}}}
}

func isExhausted(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Fault.Code == "budget_exhausted" && f.Exit == protocol.ExitLimit
}

func TestParallelReservesNeverPassTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "budgets.run.tokens = 100")
		keepers := []*Keeper{w.keeper(), w.keeper()} // two processes: neither waits for calls of the other
		ctx, cancel := context.WithCancel(t.Context())
		var admitted atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				switch _, err := keepers[i%2].Reserve(ctx, tokens("r", fmt.Sprint(i), 30)); {
				case err == nil:
					admitted.Add(1)
				case !isExhausted(err) && !errors.Is(err, context.Canceled):
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel() // the others wait for calls that do not end
		all.Wait()
		if got := w.account("run:r").Reserved.Tokens; got != 90 || admitted.Load() != 3 {
			t.Errorf("%d tokens are reserved by %d calls of 30; the limit is 100", got, admitted.Load())
		}
	})
}

func TestReserveWaitsForACallThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "budgets.run.tokens = 100")
		k := w.keeper()
		if _, err := k.Reserve(t.Context(), tokens("r", "a", 80)); err != nil {
			t.Fatal(err)
		}
		begun := make(chan error, 1)
		go func() {
			_, err := k.Reserve(t.Context(), tokens("r", "b", 80))
			begun <- err
		}()
		synctest.Wait()
		select {
		case err := <-begun:
			t.Fatalf("the second call did not wait: %v", err)
		default:
		}
		if err := k.Settle(t.Context(), "r/a", budget.Amount{Tokens: 10}, "", ""); err != nil {
			t.Fatal(err)
		}
		if err := <-begun; err != nil {
			t.Fatal(err)
		}
		if _, err := k.Reserve(t.Context(), tokens("r", "c", 95)); !isExhausted(err) {
			t.Errorf("a call that would not fit even alone: %v", err)
		}
	})
}

func TestLostReservationIsSpent(t *testing.T) {
	w := newWorld(t, "budgets.run.tokens = 100")
	if _, err := w.keeper().Reserve(t.Context(), tokens("r", "e0.1.model#0", 60)); err != nil {
		t.Fatal(err)
	}
	// The process was killed between reserve and settle. Another one asks again.
	k := w.keeper()
	m := Models{Models: &model{usage: lattice.ModelUsage{InputTokens: 3, OutputTokens: 2}, bound: 30}, Keeper: k, Run: "r"}
	if _, err := m.Ask(t.Context(), lattice.ModelRequest{Command: "e0.1.model", Again: 1}); err != nil {
		t.Fatal(err)
	}
	if got := w.account("run:r"); got.Spent.Tokens != 65 || got.Reserved.Tokens != 0 {
		t.Errorf("account = %+v, want 65 spent: 60 of the lost question and 5", got)
	}
	if _, err := m.Ask(t.Context(), lattice.ModelRequest{Command: "e0.2.model"}); err != nil {
		t.Fatal(err)
	}
	_, err := m.Ask(t.Context(), lattice.ModelRequest{Command: "e0.3.model"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = m.Ask(t.Context(), lattice.ModelRequest{Command: "e0.4.model"}); !isExhausted(err) {
		t.Errorf("a question beyond the budget: %v", err)
	}
	// A run that ends settles what is open.
	if _, err := w.keeper().Reserve(t.Context(), tokens("r", "x", 20)); err != nil {
		t.Fatal(err)
	}
	k.CloseRun(t.Context(), "r")
	if got := w.account("run:r"); got.Spent.Tokens != 95 || got.Reserved.Tokens != 0 {
		t.Errorf("after the end of the run: %+v", got)
	}
}

func TestDayEndsAtMidnightUTC(t *testing.T) {
	w := newWorld(t, "budgets.day.tokens = 50")
	k := w.keeper()
	if _, err := k.Reserve(t.Context(), tokens("r", "a", 50)); err != nil {
		t.Fatal(err)
	}
	k.dropReservation("r/a")
	if _, err := k.Reserve(t.Context(), tokens("r2", "b", 1)); !isExhausted(err) {
		t.Fatalf("the day is used up: %v", err)
	}
	w.now.Add(3599)
	if _, err := k.Reserve(t.Context(), tokens("r2", "b", 1)); !isExhausted(err) {
		t.Fatalf("a second before midnight: %v", err)
	}
	w.now.Add(1)
	r, err := k.Reserve(t.Context(), tokens("r2", "b", 1))
	if err != nil || !r.Fresh {
		t.Fatalf("after midnight: %+v, %v", r, err)
	}
	if err := k.Settle(t.Context(), "r/a", budget.Amount{Tokens: 7}, "", ""); err != nil { // counts for the day of its reservation
		t.Fatal(err)
	}
	if got := w.account("day:2026-11-23"); got.Spent.Tokens != 7 || got.Reserved.Tokens != 0 {
		t.Errorf("first day: %+v", got)
	}
	if got := w.account("day:2026-11-24"); got.Spent.Tokens != 0 || got.Reserved.Tokens != 1 {
		t.Errorf("second day: %+v", got)
	}
}

func TestForksTakeFromTheWorkItemOfTheirOrigin(t *testing.T) {
	w := newWorld(t, "budgets.work_item.tokens = 50")
	k := w.keeper()
	for _, run := range []string{"r", "fork-of-r"} {
		if _, err := k.Reserve(t.Context(), tokens(run, "a", 25)); err != nil {
			t.Fatal(err)
		}
		k.dropReservation(run + "/a")
	}
	if _, err := k.Reserve(t.Context(), tokens("fork-of-r", "b", 1)); !isExhausted(err) {
		t.Errorf("a third call: %v", err)
	}
	if _, err := k.RaiseBudget(t.Context(), api.RaiseRequest{Scope: "work_item:r", By: budget.Amount{Tokens: 1}, Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if v, err := k.RaiseBudget(t.Context(), api.RaiseRequest{Scope: "work_item:r", By: budget.Amount{Tokens: 1}, Key: "k"}); err != nil || v.Raised.Tokens != 1 {
		t.Errorf("the same request again: %+v, %v", v, err)
	}
	if _, err := k.Reserve(t.Context(), tokens("fork-of-r", "b", 1)); err != nil {
		t.Errorf("after the budget was raised: %v", err)
	}
}

// The policy says who may raise a budget. A refusal is an entry of the audit log and changes no account; a profile decides
// for its repositories.
func TestRaiseNeedsThePolicy(t *testing.T) {
	w := newWorld(t, "budgets.raise.by = ['alice', 'uid:7', 'token:ci']\n[profiles.a]\nrepositories = ['x.org/']\nbudgets.raise.by = ['bob']")
	k := w.keeper()
	for _, tt := range []struct {
		who   audit.Who
		scope string
		ok    bool
	}{
		{audit.Who{Name: "alice", UID: 1000}, "day", true}, {audit.Who{Name: "bob", UID: 7}, "day", true}, {audit.Who{Name: "token:ci", UID: -1}, "day", true},
		{audit.Who{Name: "mallory", UID: 1001}, "day", false}, {audit.Who{Name: "mallory", UID: 1001}, "run_1", false}, {audit.Who{Name: "token:alice", UID: -1}, "day", false},
		{audit.Who{Name: "alice", UID: 1000}, "repository:x.org/r", false}, {audit.Who{Name: "bob", UID: 1002}, "repository:x.org/r", true},
	} {
		refused := w.countRefusedRaises()
		before := w.ledgerText()
		_, err := k.RaiseBudget(caller.With(t.Context(), tt.who), api.RaiseRequest{Scope: tt.scope, By: budget.Amount{Tokens: 5}})
		if f := fault.As(err); tt.ok != (err == nil) || err != nil && (f == nil || f.Code != "approval_denied" || !strings.Contains(f.Message, "budgets.raise.by")) {
			t.Errorf("%s raises %s: %v, want ok: %v", tt.who.Name, tt.scope, err, tt.ok)
		}
		if n := w.countRefusedRaises() - refused; (n == 1) == tt.ok {
			t.Errorf("%s raises %s: %d entries say that it was refused", tt.who.Name, tt.scope, n)
		}
		if changed := w.ledgerText() != before; changed != tt.ok {
			t.Errorf("%s raises %s: the accounts changed: %v", tt.who.Name, tt.scope, changed)
		}
	}
}

func (w *world) countRefusedRaises() (n int) {
	w.t.Helper()
	if err := w.store.Audit(subject, 0, func(e audit.Entry) error {
		var f budget.Fact
		if err := json.Unmarshal(e.Body, &f); err != nil {
			return err
		}
		if f.Op == budget.RaiseRefused && f.Reason != "" && e.Who != nil {
			n++
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) ledgerText() (text string) {
	w.t.Helper()
	if err := w.keeper().refresh(w.t.Context(), func(l *budget.Ledger, _ uint64) {
		for _, s := range l.Scopes() {
			text += fmt.Sprintln(s, l.Account(s))
		}
	}); err != nil {
		w.t.Fatal(err)
	}
	return text
}

// model answers each question with the same usage.
type model struct {
	drive.Models
	usage lattice.ModelUsage
	bound int
	reply lattice.ModelReply
}

func (m *model) Bound(lattice.ModelRequest) lattice.ModelBound {
	return lattice.ModelBound{ModelUsage: lattice.ModelUsage{InputTokens: m.bound}}
}

func (m *model) Ask(context.Context, lattice.ModelRequest) (lattice.ModelReply, error) {
	m.reply.Usage = m.usage
	return m.reply, nil
}

// callerFunc makes calls.
type callerFunc func(lattice.Call) (lattice.Outcome, error)

func (f callerFunc) Call(_ context.Context, c lattice.Call, _ func(lattice.Event)) (lattice.Outcome, error) {
	return f(c)
}

func TestCallsOfAgents(t *testing.T) {
	finished := func(exit int, body string) lattice.Outcome {
		return lattice.Outcome{Kind: lattice.Finished, Exit: exit, Result: protocol.Result{OK: true, Data: json.RawMessage(body)}}
	}
	failed := func(exit int, details string) lattice.Outcome {
		return lattice.Outcome{Kind: lattice.Finished, Exit: exit, Result: protocol.Result{Error: &protocol.Fault{Details: json.RawMessage(details)}}}
	}
	const estimate = 1_000_000 // micro-USD, of the default policy
	tests := map[string]struct {
		input string
		out   lattice.Outcome
		err   error
		want  budget.Account
	}{
		"reported":              {"{}", finished(0, `{"usage":{"input":100,"output":10},"cost":{"usd":0.25,"source":"reported"},"duration_ms":5000}`), nil, budget.Account{Spent: budget.Amount{MicroUSD: 250_000, Tokens: 110, Millis: 5000}}},
		"failed with a report":  {"{}", failed(1, `{"usage":{"input":1,"output":1},"cost":{"usd":0.5,"source":"derived"}}`), nil, budget.Account{Spent: budget.Amount{MicroUSD: 500_000, Tokens: 2}}},
		"more than its limit":   {`{"limits":{"max_cost_usd":0.1}}`, finished(0, `{"usage":{"input":1,"output":1},"cost":{"usd":0.5,"source":"reported"}}`), nil, budget.Account{Spent: budget.Amount{MicroUSD: 500_000, Tokens: 2}}},
		"the cost is unknown":   {"{}", finished(0, `{"usage":{"input":1,"output":1},"cost":{"usd":0,"source":"unknown"}}`), nil, budget.Account{Spent: budget.Amount{MicroUSD: estimate, Tokens: 2}}},
		"its limit is reserved": {`{"limits":{"max_cost_usd":0.1,"max_tokens":7,"wall_s":3}}`, lattice.Outcome{Kind: lattice.Lost}, nil, budget.Account{Spent: budget.Amount{MicroUSD: 100_000, Tokens: 7, Millis: 3000}}},
		"hostile report":        {"{}", finished(0, `{"usage":{"input":-9e18,"output":-1},"cost":{"usd":-5,"source":"reported"}}`), nil, budget.Account{Spent: budget.Amount{MicroUSD: estimate, Tokens: 200_000, Millis: 1_800_000}}},
		"huge report":           {"{}", finished(0, `{"usage":{"input":9223372036854775807,"output":9223372036854775807},"cost":{"usd":1e300,"source":"reported"},"duration_ms":9223372036854775807}`), nil, budget.Account{Spent: budget.Amount{MicroUSD: 1<<63 - 1, Tokens: 1<<63 - 1, Millis: 1_800_000}}},
		"no report":             {"{}", finished(0, `[]`), nil, budget.Account{Spent: budget.Amount{MicroUSD: estimate, Tokens: 200_000, Millis: 1_800_000}}},
		"it never began":        {"{}", failed(protocol.ExitNotFound, ""), nil, budget.Account{}},
		"it waits":              {"{}", lattice.Outcome{Kind: lattice.Suspended}, nil, budget.Account{Reserved: budget.Amount{MicroUSD: estimate, Tokens: 200_000, Millis: 1_800_000}}},
		"not found out":         {"{}", lattice.Outcome{}, errors.New("connection lost"), budget.Account{Reserved: budget.Amount{MicroUSD: estimate, Tokens: 200_000, Millis: 1_800_000}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "[budgets.run]\nusd = 5\ntokens = 1_000_000\ntime = '2h'")
			c := Caller{Keeper: w.keeper(), Caller: callerFunc(func(lattice.Call) (lattice.Outcome, error) { return tt.out, tt.err })}
			call := lattice.Call{RunID: "r", ID: "call_1", Skill: agentSkill, Input: json.RawMessage(tt.input)}
			if _, err := c.Call(t.Context(), call, nil); !errors.Is(err, tt.err) {
				t.Fatal(err)
			}
			if got := w.account("run:r"); got != tt.want {
				t.Errorf("account = %+v, want %+v", got, tt.want)
			}
			// The same call again, which a resume makes, has the same reservation.
			if _, err := c.Call(t.Context(), call, nil); !errors.Is(err, tt.err) {
				t.Fatal(err)
			}
			if got := w.account("run:r"); got != tt.want {
				t.Errorf("after the same call again: %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestRefusedCallIsNotUncertain(t *testing.T) {
	w := newWorld(t, "budgets.run.usd = 0.01")
	var made []lattice.Call
	c := Caller{Keeper: w.keeper(), Caller: callerFunc(func(c lattice.Call) (lattice.Outcome, error) {
		made = append(made, c)
		return lattice.Outcome{}, errors.New("connection lost")
	})}
	call := lattice.Call{RunID: "r", ID: "call_1", Skill: agentSkill, Input: json.RawMessage(`{"limits":{"max_cost_usd":1}}`)}
	if _, err := c.Call(t.Context(), call, nil); !isExhausted(err) || len(made) > 0 {
		t.Fatalf("%v; made: %v", err, made)
	}
	w.text = "budgets.run.usd = 2.0"
	call.Uncertain = true // the driver has handed it over before
	for range 2 {
		if _, err := c.Call(t.Context(), call, nil); err == nil {
			t.Fatal("no error")
		}
	}
	if len(made) != 2 || made[0].Uncertain || !made[1].Uncertain {
		t.Errorf("calls that were made: %+v; the first one cannot have been made before, the second one can", made)
	}
}

// A call that goes on from a turn counts what it took itself. A report that inherits more than all counts nothing below 0.
func TestACallDoesNotCountWhatItInherits(t *testing.T) {
	held := budget.Amount{MicroUSD: 2_000_000, Tokens: 1000, Millis: 60_000}
	for _, c := range []struct {
		inherited, source string
		want              budget.Amount
	}{
		{`{}`, "reported", budget.Amount{MicroUSD: 500_000, Tokens: 220, Millis: 9000}},
		{`{"usage":{"input":100,"output":10},"cost":{"usd":0.25},"duration_ms":4000}`, "reported", budget.Amount{MicroUSD: 250_000, Tokens: 110, Millis: 5000}},
		{`{"usage":{"input":100,"output":10},"cost":{"usd":0},"duration_ms":4000}`, "unknown", budget.Amount{MicroUSD: 2_000_000, Tokens: 110, Millis: 5000}},
		{`{"usage":{"input":1000,"output":1000},"cost":{"usd":9},"duration_ms":99000}`, "reported", budget.Amount{}},
		{`{"usage":{"input":-1000,"output":-1},"cost":{"usd":-9},"duration_ms":-1}`, "reported", budget.Amount{MicroUSD: 500_000, Tokens: 220, Millis: 9000}},
	} {
		out := lattice.Outcome{Kind: lattice.Finished}
		out.Result.Data = json.RawMessage(`{"usage":{"input":200,"output":20},"cost":{"usd":0.5,"source":"` + c.source + `"},"duration_ms":9000,"inherited":` + c.inherited + `}`)
		if got, _, _ := spentBy(out, held, 0); got != c.want {
			t.Errorf("inherited %s: spent %+v, want %+v", c.inherited, got, c.want)
		}
	}
}

// After a loss of power a call that was cut off counts what it took up to the turn to which its run goes back, and no other call
// does.
func TestALossOfPowerSettlesTheTurn(t *testing.T) {
	w := newWorld(t, "budgets.run.tokens = 100")
	k := w.keeper()
	for id, tokens := range map[string]int64{"r/a": 80, "r/b": 20} {
		if _, err := k.Reserve(t.Context(), Call{Run: "r", ID: id, Name: "agent", Need: budget.Need{Most: budget.Amount{Tokens: tokens}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.SettleTurn(t.Context(), "r", "a", protocol.AgentTurn{Turn: 1, Spent: protocol.Spent{Tokens: 30, CostUSD: 0.25, Milliseconds: 7}}); err != nil {
		t.Fatal(err)
	}
	if a := w.account("run:r"); a.Reserved != (budget.Amount{Tokens: 20}) || a.Spent != (budget.Amount{Tokens: 30, MicroUSD: 250_000, Millis: 7}) {
		t.Errorf("the account is %+v", a)
	}
}
