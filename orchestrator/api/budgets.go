package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/budget"
)

// Budgets shows and raises the budgets for models and agents.
type Budgets interface {
	// Budgets lists the budgets of a run. With "" it lists those of today, of repositories and of calls that have not ended,
	// and with all every one.
	Budgets(ctx context.Context, run string, all bool) ([]BudgetView, error)
	// RaiseBudget raises the limits of a scope by an amount.
	RaiseBudget(ctx context.Context, r RaiseRequest) (BudgetView, error)
}

// RaiseRequest is POST /api/v1/budgets/raise.
type RaiseRequest struct {
	Scope string        `json:"scope"` // KIND:NAME, a run, run for the last one, or day
	By    budget.Amount `json:"by"`
	Key   string        `json:"key,omitempty"` // a request with the same key raises nothing a second time
}

// BudgetView describes the budget of a scope.
type BudgetView struct {
	Scope budget.Scope `json:"scope"`
	budget.Account
	Limit budget.Amount          `json:"limit"` // of the policy, without the amount by which it was raised; 0 is no limit
	Rules map[budget.Unit]string `json:"rules,omitempty"`
}

func budgetRoutes(s Budgets) []route.Route {
	return []route.Route{
		route.ListAll("/budgets", "List the budgets of a run; without one those of today, of repositories and of calls that have not ended.", route.After, func(v BudgetView) string { return string(v.Scope) },
			func(r *http.Request) ([]BudgetView, error) {
				return s.Budgets(r.Context(), r.FormValue("run"), exchange.IsSet(r, "all"))
			}, route.String("run", "only those of a run"), route.Bool("all", "those of other days and of ended calls as well")),
		route.AcceptKey(route.Post(route.Admin, "/budgets/raise", "Raise the limits of a scope by an amount.", func(r *http.Request, in RaiseRequest) (BudgetView, error) {
			in.Key = route.Key(r, in.Key)
			return s.RaiseBudget(r.Context(), in)
		})),
	}
}

// Budgets lists budgets.
func (c DecisionCalls) Budgets(ctx context.Context, run string, all bool) ([]BudgetView, error) {
	return callList[BudgetView](ctx, c.connection, Root+"/budgets", url.Values{"run": {run}, "all": {strconv.FormatBool(all)}})
}

// RaiseBudget raises the limits of a scope.
func (c DecisionCalls) RaiseBudget(ctx context.Context, r RaiseRequest) (BudgetView, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[BudgetView](ctx, c.connection, "POST", Root+"/budgets/raise", nil, r)
}
