// Package spending keeps the budgets of a policy. Start with [Keeper]: Reserve is called before a question to a model or a
// call of an agent begins, Settle after it. [Models] and [Caller] do both around the calls themselves.
//
// The ledger is the fold of entries of the audit log, so it survives the process. A reservation that no call of this process
// holds belongs to a call whose outcome is not known; it is settled as spent when the question is asked again or its run
// ends.
package spending

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// subject is the subject of the entries about budgets in the audit log.
const subject = "budgets"

// Keeper owns the ledger. It is safe for concurrent use.
type Keeper struct {
	Facts    audit.Facts
	PolicyOf func(ctx context.Context, run string) (policy.Policy, error)
	// OptionsOf returns the work item and the options of a run.
	OptionsOf func(run string) (workItem string, o history.Options, err error)
	// ResolveRun returns the id of the run that a user means.
	ResolveRun func(id string) (string, error)
	Server     func() ([]policy.Layer, error)
	Logger     zerolog.Logger
	Now        func() time.Time // nil is time.Now

	mu      sync.Mutex
	read    uint64 // guarded by mu, as below: sequence of the last entry in ledger
	ledger  budget.Ledger
	held    map[string]bool // reservations of calls that this process makes, by id
	changed chan struct{}   // closed when a reservation of this process was settled
}

func (k *Keeper) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// refresh folds the entries that were appended since the last time, and calls look while it holds the lock. look gets the
// sequence number of the last entry.
func (k *Keeper) refresh(ctx context.Context, look func(l *budget.Ledger, seq uint64)) error {
	if err := audit.ApplyNew(ctx, k.Facts, subject, &k.mu, &k.read, func(_ audit.Entry, f budget.Fact) { k.ledger.Apply(f) }); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	look(&k.ledger, k.read)
	return nil
}

// appendFact records a fact. Of several with one key only the first is recorded.
func (k *Keeper) appendFact(ctx context.Context, key string, f budget.Fact, after uint64) error {
	_, err := k.Facts.AddFact(ctx, audit.Entry{Kind: audit.Budget, Subject: subject, Key: key}, f, after)
	return err
}

// scopesOf returns the scopes that a call of a run is charged to at this moment.
func (k *Keeper) scopesOf(run string) ([]budget.Scope, error) {
	item, o, err := k.OptionsOf(run)
	if err != nil {
		return nil, err
	}
	scopes := []budget.Scope{budget.Run.Of(run), budget.Session.Of(cmp.Or(o.Session, run)), budget.WorkItem.Of(cmp.Or(o.Account, item))}
	if o.Repo != "" {
		scopes = append(scopes, budget.Repository.Of(policy.RepositoryName(o.Repo)))
	}
	return append(scopes, budget.DayOf(k.now())), nil
}

// limitsOf returns the limits of scopes.
func limitsOf(p policy.Policy, scopes []budget.Scope) (limits []budget.Limit) {
	for _, s := range scopes {
		kind, _ := s.Split()
		amount, rules := p.Budget(string(kind))
		limit := budget.Limit{Scope: s, Amount: amount, Rules: map[budget.Unit]string{}}
		for u, r := range rules {
			limit.Rules[u] = r.String()
		}
		limits = append(limits, limit)
	}
	return limits
}

// Call is a question to a model or a call of an agent that takes a part of the budgets.
type Call struct {
	Run, ID string // the id is unique
	Name    string // for people
	Need    budget.Need
	// Guess are the units of which no most is known; the policy's estimate is reserved.
	Guess []budget.Unit
}

// Reservation is an amount that is reserved for a call.
type Reservation struct {
	ID     string
	Amount budget.Amount
	Begun  time.Time
	// Fresh says that the call was refused before and has not begun.
	Fresh bool
}

// Reserve reserves the need of a call in all its scopes before the call begins. The same call has the same reservation. It
// fails if a budget does not admit the call, and waits while other calls of this process hold the part that is missing.
func (k *Keeper) Reserve(ctx context.Context, c Call) (Reservation, error) {
	p, err := k.PolicyOf(ctx, c.Run)
	if err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, k.appendFact(ctx, "", budget.Fact{Op: budget.Refused, ID: c.ID, Call: c.Name, Reason: err.Error()}, store.Any))
		}
		return Reservation{}, err
	}
	for _, u := range c.Guess {
		c.Need.Guess = c.Need.Guess.With(u, p.Estimate().Of(u))
	}
	var judged uint64 // sequence at which the call was last found not to fit
	for {
		scopes, err := k.scopesOf(c.Run) // each time: the day may end
		if err != nil {
			return Reservation{}, err
		}
		limits := limitsOf(p, scopes)
		r := Reservation{ID: c.ID, Begun: k.now()}
		var short *budget.Shortage
		var seq uint64
		var passing <-chan struct{}
		known := false
		if err := k.refresh(ctx, func(l *budget.Ledger, at uint64) {
			seq, r.Fresh = at, l.WasRefused(c.ID)
			f, open := l.Open(c.ID)
			if known = open || l.Closed(c.ID); known { // a closed one belongs to a call whose outcome is looked up once more
				r.Amount = f.Amount
				k.holdReservation(c.ID)
				return
			}
			if r.Amount, short = l.Fit(c.Need, limits); short != nil && short.Passes() && k.holdsAny(l.OpenIn(short.Scope)) {
				passing = k.changed
			}
		}); err != nil {
			return Reservation{}, err
		}
		switch {
		case known:
			return r, nil
		case passing != nil:
			select {
			case <-passing:
				continue
			case <-ctx.Done():
				return Reservation{}, ctx.Err()
			}
		case short != nil && judged != seq: // a call may have settled since the entries were read
			judged = seq
			continue
		case short != nil:
			return Reservation{}, k.refuseCall(ctx, c, scopes, short)
		}
		f := budget.Fact{Op: budget.Reserved, ID: c.ID, Scopes: scopes, Amount: r.Amount, Call: c.Name}
		k.mu.Lock()
		k.holdReservation(c.ID)
		k.mu.Unlock()
		err = k.appendFact(ctx, "reserved:"+c.ID, f, seq)
		if err == nil {
			return r, nil
		}
		k.dropReservation(c.ID)
		if !errors.Is(err, lattice.ErrConflict) { // else another call was faster
			return Reservation{}, err
		}
	}
}

// holdReservation notes that a call of this process has a reservation. It requires mu.
func (k *Keeper) holdReservation(id string) {
	if k.held == nil {
		k.held, k.changed = map[string]bool{}, make(chan struct{})
	}
	k.held[id] = true
}

// holdsAny reports whether calls of this process have one of these reservations. It requires mu.
func (k *Keeper) holdsAny(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return k.held[id] })
}

// dropReservation notes that a call of this process has ended, and wakes those that wait for it.
func (k *Keeper) dropReservation(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[id] {
		delete(k.held, id)
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// refuseCall records that a budget does not admit a call, and returns the error that says so.
func (k *Keeper) refuseCall(ctx context.Context, c Call, scopes []budget.Scope, short *budget.Shortage) error {
	if err := k.appendFact(ctx, "", budget.Fact{Op: budget.Refused, ID: c.ID, Scopes: scopes, Call: c.Name, Reason: short.Error()}, store.Any); err != nil {
		return err
	}
	flag := map[budget.Unit]string{
		budget.Money: fmt.Sprintf("--usd %.2f", float64(short.Missing()/10_000+1)/100), budget.Tokens: fmt.Sprintf("--tokens %d", short.Missing()),
		budget.Time: "--time " + (time.Duration(short.Missing()/1000+1) * time.Second).String(),
	}[short.Unit]
	refused := fault.Limit("budget_exhausted", "%s may not begin: %v", c.Name, short).WithHint("lattice budget raise %s %s; then: lattice resume %s", short.Scope, flag, c.Run)
	refused.Details = fmt.Appendf(nil, `{"unit":%q}`, short.Unit)
	return refused
}

// Settle records the amount that a call took, and the model, "" if it is not known. Of several settlements the first counts.
func (k *Keeper) Settle(ctx context.Context, id string, spent budget.Amount, model, reason string) error {
	f := budget.Fact{Op: budget.Settled, ID: id, Amount: spent, Model: text.HeadRunes(text.Line(model), maxModel), Reason: reason}
	err := k.appendFact(ctx, "settled:"+id, f, store.Any)
	k.dropReservation(id)
	return err
}

// maxModel bounds the name of a model, in characters: a sprite may report it.
const maxModel = 100

// Release records that a call did not begin.
func (k *Keeper) Release(ctx context.Context, id string) error {
	err := k.appendFact(ctx, "settled:"+id, budget.Fact{Op: budget.Released, ID: id}, store.Any)
	k.dropReservation(id)
	return err
}

// Lose settles a reservation, if it is open, as spent: the outcome of its call is not known.
func (k *Keeper) Lose(ctx context.Context, id, reason string) error {
	var f budget.Fact
	open := false
	if err := k.refresh(ctx, func(l *budget.Ledger, _ uint64) { f, open = l.Open(id) }); err != nil || !open {
		return err
	}
	return k.Settle(ctx, id, f.Amount, "", reason)
}

// SettleTurn settles the reservation of a call of an agent, if it is open, with the usage of the call up to a turn. The call is
// made again, goes on from there and counts the rest; it counts all of a cost that is not known.
func (k *Keeper) SettleTurn(ctx context.Context, run, call string, turn protocol.AgentTurn) error {
	s := turn.Spent
	spent := budget.Amount{MicroUSD: budget.MicroUSD(s.CostUSD), Tokens: max(0, s.Tokens), Millis: max(0, s.Milliseconds)}
	id, open := reservationID(run, call), false
	if err := k.refresh(ctx, func(l *budget.Ledger, _ uint64) { _, open = l.Open(id) }); err != nil || !open {
		return err
	}
	return k.Settle(ctx, id, spent, "", fmt.Sprintf("the files were lost after turn %d", turn.Turn))
}

// CloseRun settles the reservations of a run that has ended.
func (k *Keeper) CloseRun(ctx context.Context, run string) {
	var ids []string
	err := k.refresh(ctx, func(l *budget.Ledger, _ uint64) { ids = l.OpenIn(budget.Run.Of(run)) })
	for _, id := range ids {
		err = errors.Join(err, k.Lose(ctx, id, "the run ended before the call did"))
	}
	if err != nil {
		k.Logger.Warn().Err(err).Str("run_id", run).Str("trace_id", tracecontext.TraceID(run)).Msg("settle the reservations of the run")
	}
}

// parseScope returns the scope that a user means: KIND:NAME, a run, run for the last one, or day for today.
func (k *Keeper) parseScope(text string) (budget.Scope, error) {
	switch text {
	case string(budget.Day):
		return budget.DayOf(k.now()), nil
	case string(budget.Run):
		text = ""
	}
	if kind, name := budget.Scope(text).Split(); kind != budget.Run && name != "" {
		if !slices.Contains(budget.Kinds(), kind) {
			return "", fault.BadInput("bad_input", "%.64q is not a kind of budget", string(kind)).WithHint("run, session, work_item, repository or day, as lattice budget ls shows them")
		}
		return budget.Scope(text), nil
	}
	run, err := k.ResolveRun(strings.TrimPrefix(text, string(budget.Run)+":"))
	return budget.Run.Of(run), err
}
