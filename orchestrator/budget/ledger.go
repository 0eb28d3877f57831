package budget

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Scope is an account: KIND:NAME, such as run:run_0123 or day:2026-11-23.
type Scope string

// Kind is the kind of a scope.
type Kind string

// The kinds of scopes. A session is a run, such as that of a loop, with its forks and the runs that go on from it.
const (
	Session    Kind = "session"
	Run        Kind = "run"
	WorkItem   Kind = "work_item"
	Repository Kind = "repository"
	Day        Kind = "day"
	// Model is the model that took an amount. It has no limits: which one a call takes is known only when the call has ended.
	Model Kind = "model"
)

// Kinds returns the kinds of scopes for which policies have limits, the narrowest first.
func Kinds() []Kind { return []Kind{Run, Session, WorkItem, Repository, Day} }

// Of returns the scope of a kind.
func (k Kind) Of(name string) Scope { return Scope(string(k) + ":" + name) }

// DayOf returns the scope of the day of an instant, in UTC.
func DayOf(at time.Time) Scope { return Day.Of(at.UTC().Format(time.DateOnly)) }

// Split returns the kind and the name of a scope.
func (s Scope) Split() (Kind, string) {
	kind, name, _ := strings.Cut(string(s), ":")
	return Kind(kind), name
}

// Op is the kind of a fact.
type Op string

// The facts. A settled reservation has the amount that was spent; a released one was not used at all.
const (
	Reserved Op = "reserved"
	Settled  Op = "settled"
	Released Op = "released"
	Refused  Op = "refused"
	Raised   Op = "raised"
	// RaiseRefused says that the policy does not let a person raise a limit. It changes no account.
	RaiseRefused Op = "raise refused"
)

// Ops returns the kinds of facts.
func Ops() []Op { return []Op{Reserved, Settled, Released, Refused, Raised, RaiseRefused} }

// Fact is an entry of the ledger.
type Fact struct {
	Op     Op      `json:"op"`
	ID     string  `json:"id,omitempty"`     // of the reservation: run and call
	Scopes []Scope `json:"scopes,omitempty"` // that are charged or, of raised, whose limit is raised
	Amount Amount  `json:"amount"`
	Call   string  `json:"call,omitempty"`   // the call, for people
	Model  string  `json:"model,omitempty"`  // of settled: the model that took the amount, if it is known
	Reason string  `json:"reason,omitempty"` // of refused; of settled, why the amount is not the one that was reported
}

// Check returns an error if f is not a fact that a ledger can have.
func (f Fact) Check() error {
	switch {
	case !slices.Contains(Ops(), f.Op):
		return fmt.Errorf("%.40q is not a kind of fact about a budget", f.Op)
	case !f.Amount.Valid():
		return fmt.Errorf("a fact about a budget has the negative amount %v", f.Amount)
	}
	return nil
}

// Account is the state of a scope.
type Account struct {
	Spent    Amount `json:"spent"`
	Reserved Amount `json:"reserved"`
	Raised   Amount `json:"raised"` // added to the limits of the policy by people
}

// Ledger is the fold of facts. The zero value has none.
type Ledger struct {
	accounts map[Scope]Account
	open     map[string]Fact // reservations, by id
	closed   map[string]bool // ids of reservations that were settled or released
	refused  map[string]bool // ids of calls that were refused and have not begun since
}

// Apply adds a fact. One about a reservation that is not open changes nothing.
func (l *Ledger) Apply(f Fact) {
	if l.accounts == nil {
		l.accounts, l.open, l.closed, l.refused = map[Scope]Account{}, map[string]Fact{}, map[string]bool{}, map[string]bool{}
	}
	if !f.Amount.Valid() {
		return
	}
	held, open := l.open[f.ID]
	switch {
	case f.Op == Raised:
		l.changeAccounts(f.Scopes, func(a *Account) { a.Raised = a.Raised.Plus(f.Amount) })
	case f.Op == Refused && !open && !l.closed[f.ID]:
		l.refused[f.ID] = true
	case f.Op == Reserved && !open && !l.closed[f.ID]:
		delete(l.refused, f.ID)
		l.open[f.ID] = f
		l.changeAccounts(f.Scopes, func(a *Account) { a.Reserved = a.Reserved.Plus(f.Amount) })
	case (f.Op == Settled || f.Op == Released) && open:
		delete(l.open, f.ID)
		l.closed[f.ID] = true
		spent := f.Amount
		if f.Op == Released {
			spent = Amount{}
		}
		l.changeAccounts(held.Scopes, func(a *Account) { a.Reserved, a.Spent = a.Reserved.Minus(held.Amount), a.Spent.Plus(spent) })
		l.changeAccounts([]Scope{Model.Of(cmp.Or(f.Model, "unknown"))}, func(a *Account) { a.Spent = a.Spent.Plus(spent) })
	}
}

func (l *Ledger) changeAccounts(scopes []Scope, change func(*Account)) {
	for _, s := range scopes {
		a := l.accounts[s]
		change(&a)
		l.accounts[s] = a
	}
}

// Account returns the state of a scope.
func (l *Ledger) Account(s Scope) Account { return l.accounts[s] }

// Scopes returns the scopes that have an account, sorted.
func (l *Ledger) Scopes() []Scope { return slices.Sorted(maps.Keys(l.accounts)) }

// Open returns the open reservation with an id.
func (l *Ledger) Open(id string) (Fact, bool) {
	f, ok := l.open[id]
	return f, ok
}

// Closed reports whether the reservation with an id was settled or released.
func (l *Ledger) Closed(id string) bool { return l.closed[id] }

// WasRefused reports whether a call was refused and has not begun since.
func (l *Ledger) WasRefused(id string) bool { return l.refused[id] }

// OpenIn returns the ids of the open reservations of a scope, sorted.
func (l *Ledger) OpenIn(s Scope) (ids []string) {
	for id, f := range l.open {
		if slices.Contains(f.Scopes, s) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Need is the amount that a call asks for. Most is the most that it can take. Guess stands in for the quantities whose most is
// not known; it is cut to the amount that is left.
type Need struct{ Most, Guess Amount }

// Limit is the limit of a scope; a quantity of 0 is not limited. Rules name the rules that set it.
type Limit struct {
	Scope  Scope
	Amount Amount
	Rules  map[Unit]string
}

// Shortage says why a call may not begin.
type Shortage struct {
	Limit
	Unit   Unit
	Have   Account
	Wanted int64
	least  int64 // with which the call may begin
}

// Passes reports whether the call could begin if all open reservations of the scope were released.
func (s *Shortage) Passes() bool {
	return s.Have.Reserved.Of(s.Unit) > 0 && addSaturating(s.Have.Spent.Of(s.Unit), s.least) <= s.sumLimit()
}

func (s *Shortage) sumLimit() int64 {
	return addSaturating(s.Amount.Of(s.Unit), s.Have.Raised.Of(s.Unit))
}

// countLeft returns the part of the limit that is neither spent nor reserved.
func (s *Shortage) countLeft() int64 {
	used := addSaturating(s.Have.Spent.Of(s.Unit), s.Have.Reserved.Of(s.Unit))
	return s.sumLimit() - min(s.sumLimit(), used)
}

// Missing returns the amount by which the limit must be raised for the call to begin.
func (s *Shortage) Missing() int64 {
	used := addSaturating(s.Have.Spent.Of(s.Unit), s.Have.Reserved.Of(s.Unit))
	return max(0, addSaturating(used, s.Wanted)-s.sumLimit())
}

// Error describes the shortage.
func (s *Shortage) Error() string {
	kind, name := s.Scope.Split()
	text := fmt.Sprintf("the budget of the %s %s is %s, of which %s is spent", strings.ReplaceAll(string(kind), "_", " "), name, s.Unit.Text(s.sumLimit()), s.Unit.Text(s.Have.Spent.Of(s.Unit)))
	if held := s.Have.Reserved.Of(s.Unit); held > 0 {
		text += fmt.Sprintf(" and %s reserved", s.Unit.Text(held))
	}
	return fmt.Sprintf("%s; the call could take %s (the rule is %s)", text, s.Unit.Text(s.Wanted), s.Rules[s.Unit])
}

// Fit returns the amount to reserve for a call, or the first limit that does not admit it. Quantities without a limit whose
// most is not known are not reserved.
func (l *Ledger) Fit(n Need, limits []Limit) (Amount, *Shortage) {
	amount := n.Most
	for _, u := range Units() {
		most, guess := n.Most.Of(u), n.Guess.Of(u)
		if most == 0 && guess == 0 {
			continue // it is known to take nothing
		}
		limited := false
		for _, limit := range limits {
			if limit.Amount.Of(u) == 0 {
				continue
			}
			short := Shortage{Limit: limit, Unit: u, Have: l.accounts[limit.Scope], Wanted: most, least: most}
			if most == 0 {
				short.Wanted, short.least = n.Guess.Of(u), 1
			}
			if short.countLeft() < short.least {
				return Amount{}, &short
			}
			limited, guess = true, min(guess, short.countLeft())
		}
		if most == 0 && limited {
			amount = amount.With(u, guess)
		}
	}
	return amount, nil
}
