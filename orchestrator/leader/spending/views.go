package spending

import (
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
