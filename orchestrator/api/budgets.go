package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

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

// RaiseRequest is POST /v1/budgets/raise.
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

func routeBudgets(mux *http.ServeMux, s Budgets) {
	mux.HandleFunc("GET /v1/budgets", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Budgets(r.Context(), r.FormValue("run"), r.FormValue("all") == "true")
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/budgets/raise", func(w http.ResponseWriter, r *http.Request) {
		var in RaiseRequest
		if !read(w, r, &in) {
			return
		}
		out, err := s.RaiseBudget(r.Context(), in)
		reply(w, out, err)
	})
}

// Budgets lists budgets.
func (c *Client) Budgets(ctx context.Context, run string, all bool) ([]BudgetView, error) {
	return call[[]BudgetView](ctx, c, "GET", "/v1/budgets", url.Values{"run": {run}, "all": {strconv.FormatBool(all)}}, nil)
}

// RaiseBudget raises the limits of a scope.
func (c *Client) RaiseBudget(ctx context.Context, r RaiseRequest) (BudgetView, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[BudgetView](ctx, c, "POST", "/v1/budgets/raise", nil, r)
}
