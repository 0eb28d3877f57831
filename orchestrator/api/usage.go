package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Usage is the part of Service that tells who uses the machine, the sprites and the models.
type Usage interface {
	// Top returns the open runs and the sprites at this moment. Its cost grows with both, and not with the runs that have ended.
	Top(ctx context.Context) (Snapshot, error)
	// Cost lists the money spent by repository, model or day, from a ledger that is kept for budgets.
	Cost(ctx context.Context, by string) ([]CostLine, error)
}

// Snapshot is the state of the runs and sprites at a moment.
type Snapshot struct {
	At      time.Time        `json:"at"`
	Today   budget.Amount    `json:"spent_today"`
	Runs    []RunView        `json:"runs"` // that have not ended, the newest first
	Sprites []sprites.Sprite `json:"sprites"`
}

// CostLine is the amount that models and agents took for one repository, model or day.
type CostLine struct {
	By    string        `json:"by"` // repo, model or day
	Name  string        `json:"name"`
	Spent budget.Amount `json:"spent"`
}

func usageRoutes(s Usage) []route.Route {
	return []route.Route{
		route.Get("/top", "Return the open runs and the sprites, with what they use at this moment.", func(r *http.Request) (Snapshot, error) { return s.Top(r.Context()) }),
		route.ListAll("/cost", "List what models and agents took by repository, model or day.", route.After, func(v CostLine) string { return v.Name }, func(r *http.Request) ([]CostLine, error) {
			return s.Cost(r.Context(), r.FormValue("by"))
		}, route.String("by", "repo, model or day; by default day")),
	}
}

// Top returns the open runs and the sprites at this moment.
func (c RunCalls) Top(ctx context.Context) (Snapshot, error) {
	return call[Snapshot](ctx, c.connection, "GET", Root+"/top", nil, nil)
}

// Cost lists the money spent by repo, model or day.
func (c DecisionCalls) Cost(ctx context.Context, by string) ([]CostLine, error) {
	return callList[CostLine](ctx, c.connection, Root+"/cost", url.Values{"by": {by}})
}
