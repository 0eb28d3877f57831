package spending

import (
	"cmp"
	"context"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// RunBudgets lists the budgets from which a run takes, with their limits. A policy that cannot be read stops the run's calls, and
// not this list, which then has no limits.
func (k *Keeper) RunBudgets(ctx context.Context, run string) ([]api.BudgetView, error) {
	scopes, err := k.scopesOf(run)
	if err != nil {
		return nil, err
	}
	p, err := k.PolicyOf(ctx, run)
	if err != nil {
		p = policy.Policy{}
	}
	var views []api.BudgetView
	err = k.refresh(ctx, func(l *budget.Ledger, _ uint64) {
		for _, limit := range limitsOf(p, scopes) {
			views = append(views, viewOf(l, limit))
		}
	})
	return views, err
}

// Spent returns the amounts that were taken from budgets.
func (k *Keeper) Spent(ctx context.Context, scopes ...budget.Scope) ([]budget.Amount, error) {
	spent := make([]budget.Amount, len(scopes))
	err := k.refresh(ctx, func(l *budget.Ledger, _ uint64) {
		for i, s := range scopes {
			spent[i] = l.Account(s).Spent
		}
	})
	return spent, err
}

// costKinds are the kinds of scopes by which cost is listed, by their names for people.
var costKinds = map[string]budget.Kind{"repo": budget.Repository, "model": budget.Model, "day": budget.Day}

// Cost lists the amounts that were spent by repo, model or day: the newest day first, else the largest cost.
func (k *Keeper) Cost(ctx context.Context, by string) ([]api.CostLine, error) {
	by = cmp.Or(by, "day")
	kind, ok := costKinds[by]
	if !ok {
		return nil, fault.BadInput("bad_input", "cost is listed by repo, model or day, not by %.64q", by).WithHint("lattice cost --by repo")
	}
	var lines []api.CostLine
	if err := k.refresh(ctx, func(l *budget.Ledger, _ uint64) {
		for _, s := range l.Scopes() {
			if of, name := s.Split(); of == kind && l.Account(s).Spent != (budget.Amount{}) {
				lines = append(lines, api.CostLine{By: by, Name: name, Spent: l.Account(s).Spent})
			}
		}
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(lines, func(a, b api.CostLine) int {
		if kind == budget.Day {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Or(cmp.Compare(b.Spent.MicroUSD, a.Spent.MicroUSD), cmp.Compare(b.Spent.Tokens, a.Spent.Tokens), cmp.Compare(a.Name, b.Name))
	})
	return lines, nil
}

func viewOf(l *budget.Ledger, limit budget.Limit) api.BudgetView {
	return api.BudgetView{Scope: limit.Scope, Account: l.Account(limit.Scope), Limit: limit.Amount, Rules: limit.Rules}
}

// Budgets lists the budgets of a run, or, with "", those of today, of the repositories, and of calls that have not ended. With
// all it lists every budget from which something was taken.
func (k *Keeper) Budgets(ctx context.Context, run string, all bool) ([]api.BudgetView, error) {
	if run != "" {
		id, err := k.ResolveRun(run)
		if err != nil {
			return nil, err
		}
		return k.RunBudgets(ctx, id)
	}
	server, err := k.Server()
	if err != nil {
		return nil, err
	}
	today := budget.DayOf(k.now())
	views := []api.BudgetView{}
	err = k.refresh(ctx, func(l *budget.Ledger, _ uint64) {
		scopes := l.Scopes()
		if !slices.Contains(scopes, today) {
			scopes = append(scopes, today)
		}
		for _, s := range scopes {
			kind, name := s.Split()
			if !all && s != today && kind != budget.Repository && l.Account(s).Reserved == (budget.Amount{}) {
				continue
			}
			if kind != budget.Repository {
				name = ""
			}
			views = append(views, viewOf(l, limitsOf(policy.New(name, server...), []budget.Scope{s})[0]))
		}
	})
	return views, err
}

// RaiseBudget raises the limits of a scope by an amount, once for each key.
func (k *Keeper) RaiseBudget(ctx context.Context, r api.RaiseRequest) (api.BudgetView, error) {
	by := r.By
	if !by.Valid() || by == (budget.Amount{}) {
		return api.BudgetView{}, fault.BadInput("bad_input", "the amount by which a budget is raised must be more than 0").WithHint("lattice budget raise day --usd 5")
	}
	s, err := k.parseScope(r.Scope)
	if err != nil {
		return api.BudgetView{}, err
	}
	if err := k.admitRaise(ctx, s, by); err != nil {
		return api.BudgetView{}, err
	}
	key := ""
	if r.Key != "" {
		key = "raised:" + r.Key
	}
	if err := k.appendFact(ctx, key, budget.Fact{Op: budget.Raised, Scopes: []budget.Scope{s}, Amount: by}, store.Any); err != nil {
		return api.BudgetView{}, err
	}
	view := api.BudgetView{}
	err = k.refresh(ctx, func(l *budget.Ledger, _ uint64) { view = viewOf(l, budget.Limit{Scope: s}) })
	return view, err
}

// admitRaise refuses to raise a budget for a person whom the policy does not let, and records that.
func (k *Keeper) admitRaise(ctx context.Context, s budget.Scope, by budget.Amount) error {
	p, err := k.policyOfScope(ctx, s)
	if err != nil {
		return err
	}
	_, reason := govern.Admit(ctx, p, p.Raise(), nil, nil)
	if reason == "" {
		return nil
	}
	if err := k.appendFact(ctx, "", budget.Fact{Op: budget.RaiseRefused, Scopes: []budget.Scope{s}, Amount: by, Reason: reason}, store.Any); err != nil {
		return err
	}
	return fault.Denied("approval_denied", "%s", reason).WithHint("lattice policy explain budgets.raise")
}

// policyOfScope returns the policy that holds for a budget: of a run that of the run, of a repository with its profiles.
func (k *Keeper) policyOfScope(ctx context.Context, s budget.Scope) (policy.Policy, error) {
	kind, name := s.Split()
	if kind == budget.Run {
		return k.PolicyOf(ctx, name)
	}
	server, err := k.Server()
	if kind != budget.Repository {
		name = ""
	}
	return policy.New(name, server...), err
}
