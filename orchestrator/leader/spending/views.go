package spending

import (
	"context"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/budget"
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
			repository := ""
			if kind == budget.Repository {
				repository = name
			}
			views = append(views, viewOf(l, limitsOf(policy.New(repository, server...), []budget.Scope{s})[0]))
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
