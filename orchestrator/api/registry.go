package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/artifact"
)

// ProductQuery selects from the registry of artifacts.
type ProductQuery struct {
	Kind, Run, Intent, Repo string
	Limit                   int // 0 is 100
}

func productsRoute(s Artifacts) Route {
	return get("/artifacts", "List artifacts of all runs, the newest first.", func(r *http.Request) ([]artifact.Product, error) {
		limit, err := exchange.LimitOf(r)
		if err != nil {
			return nil, err
		}
		return s.Products(r.Context(), ProductQuery{Kind: r.FormValue("kind"), Run: r.FormValue("run"), Intent: r.FormValue("intent"), Repo: r.FormValue("repo"), Limit: limit})
	}, Param{"kind", "string", "branch, commit, file, pull_request, issue, or as declared"}, Param{"run", "string", "only those of a run"},
		Param{"intent", "string", "only those of an intent"}, Param{"repo", "string", "only those of runs on a repository"}, Param{"limit", "integer", "at most so many; by default 100"})
}

// Products lists artifacts of all runs, the newest first.
func (c RunCalls) Products(ctx context.Context, q ProductQuery) ([]artifact.Product, error) {
	return call[[]artifact.Product](ctx, c.connection, "GET", Root+"/artifacts", url.Values{"kind": {q.Kind}, "run": {q.Run}, "intent": {q.Intent}, "repo": {q.Repo}, "limit": {strconv.Itoa(q.Limit)}}, nil)
}
