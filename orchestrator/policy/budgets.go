package policy

import (
	"math"
	"time"

	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Budgets limit the money, tokens and time that questions to models and calls of agents take. Each call must fit all of them.
type Budgets struct {
	// Run is the budget of one run.
	Run Budget `toml:"run" json:"run,omitzero"`
	// Session is the budget of one run, such as that of a loop, with its forks and the runs that go on from it.
	Session Budget `toml:"session" json:"session,omitzero"`
	// WorkItem is the budget of all runs for one work item, and of their forks.
	WorkItem Budget `toml:"work_item" json:"work_item,omitzero"`
	// Repository is the budget of all runs on one repository, ever.
	Repository Budget `toml:"repository" json:"repository,omitzero"`
	// Day is the budget of all runs on one day, in UTC.
	Day Budget `toml:"day" json:"day,omitzero"`
	// Estimate is reserved for a call whose most is not known. It is not a limit.
	Estimate Budget `toml:"estimate" json:"estimate,omitzero"`
	// Raise says who may raise a budget.
	Raise Raise `toml:"raise" json:"raise,omitzero"`
}

// Raise says who may raise a budget.
type Raise struct {
	// By are the names or the ids (uid:1000) of the users, or tokens (token:ci), who may raise it; by default all.
	By []string `toml:"by" json:"by,omitempty"`
}

// Budget is a sum of money, tokens and time; a quantity that is left out is not limited.
type Budget struct {
	// USD is an amount of US dollars.
	USD float64 `toml:"usd" json:"usd,omitempty"`
	// Tokens is a number of tokens, those that are read and those that are written.
	Tokens int64 `toml:"tokens" json:"tokens,omitempty"`
	// Time is the time that calls take, such as 2h.
	Time Duration `toml:"time" json:"time,omitempty"`
}

// The keys that stand next to the kinds of scopes.
const (
	estimateName = "estimate"
	// RaiseName is the key of the rule about who may raise a budget.
	RaiseName = "raise"
)

// BudgetNames returns the names of the budgets that a policy may have, and of the estimate.
func BudgetNames() (names []string) {
	for _, kind := range budget.Kinds() {
		names = append(names, string(kind))
	}
	return append(names, estimateName)
}

func (b Budgets) findBudget(name string) Budget {
	switch name {
	case string(budget.Run):
		return b.Run
	case string(budget.Session):
		return b.Session
	case string(budget.WorkItem):
		return b.WorkItem
	case string(budget.Repository):
		return b.Repository
	case string(budget.Day):
		return b.Day
	case estimateName:
		return b.Estimate
	}
	return Budget{}
}

func (b Budget) toAmount() budget.Amount {
	return budget.Amount{MicroUSD: budget.MicroUSD(b.USD), Tokens: b.Tokens, Millis: time.Duration(b.Time).Milliseconds()}
}

// Budget returns the budget with a name, and the rules that set its quantities. Of the server's layers the first that sets a
// quantity decides; the policy of a repository can lower it. An estimate can be 0.
func (p Policy) Budget(name string) (limit budget.Amount, rules map[budget.Unit]Rule) {
	rules = map[budget.Unit]Rule{}
	take := func(l Layer, lower bool) {
		amount := l.Budgets.findBudget(name).toAmount()
		for _, u := range budget.Units() {
			n, key := amount.Of(u), "budgets."+name+"."+string(u)
			_, decided := rules[u]
			if _, set := l.lines[key]; (n > 0 || set) && (!decided || lower && n < limit.Of(u)) {
				limit = limit.With(u, n)
				rules[u] = l.ruleOf(key)
			}
		}
	}
	for _, l := range p.ceiling {
		take(l, false)
	}
	if p.repository != nil && name != estimateName {
		take(*p.repository, true)
	}
	return limit, rules
}

// Estimate returns the amount that is reserved for a call whose most is not known.
func (p Policy) Estimate() budget.Amount {
	estimate, _ := p.Budget(estimateName)
	return estimate
}

// Raise returns the rule about who may raise a budget: that of the first of the server's layers that has one.
func (p Policy) Raise() Verdict {
	for _, l := range p.ceiling {
		if by := l.Budgets.Raise.By; len(by) > 0 {
			return Verdict{Decision: lattice.Allow, Rule: l.ruleOf("budgets." + RaiseName + ".by"), Approve: Approve{By: by}}
		}
	}
	return Verdict{Decision: lattice.Allow, Rule: Rule{Source: defaultSource, Name: "budgets." + RaiseName}}
}

func (c *checker) checkBudgets(at string, b Budgets) {
	for _, name := range BudgetNames() {
		limit, key := b.findBudget(name), at+"budgets."+name
		if limit.USD < 0 || math.IsNaN(limit.USD) || math.IsInf(limit.USD, 0) {
			c.addProblem(key+".usd", "%v is not an amount of US dollars", limit.USD)
		}
		if limit.Tokens < 0 {
			c.addProblem(key+".tokens", "%d is not a number of tokens", limit.Tokens)
		}
		for _, u := range budget.Units() {
			at := key + "." + string(u)
			if c.lines[at] > 0 && limit.toAmount().Of(u) == 0 && name != estimateName {
				c.addProblem(at, "a budget is more than 0; leave it out to set no limit")
			}
		}
	}
}
