package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/artifact"
)

// ProductQuery selects from the registry of artifacts.
type ProductQuery struct {
	Kind, Run, Intent, Repo string
	Before                  string // only those that follow this one, RUN@SEQ, in the list
	Limit                   int    // 0 is 100
}

func productsRoute(s Artifacts) Route {
	return list("/artifacts", "List artifacts of all runs, the newest first. A limit of 0 is 100.", before, artifact.Product.Name, func(r *http.Request, p exchange.Page) ([]artifact.Product, error) {
		return s.Products(r.Context(), ProductQuery{Kind: r.FormValue("kind"), Run: r.FormValue("run"), Intent: r.FormValue("intent"), Repo: r.FormValue("repo"), Before: p.Last, Limit: p.Limit})
	}, Param{"kind", "string", "branch, commit, file, pull_request, issue, or as declared; junit or sarif for files that are such reports"}, Param{"run", "string", "only those of a run"},
		Param{"intent", "string", "only those of an intent"}, Param{"repo", "string", "only those of runs on a repository"})
}

// Products lists artifacts of all runs, the newest first.
func (c RunCalls) Products(ctx context.Context, q ProductQuery) ([]artifact.Product, error) {
	query := queryOf("kind", q.Kind, "run", q.Run, "intent", q.Intent, "repo", q.Repo, "limit", strconv.Itoa(q.Limit), before, q.Before)
	return callList[artifact.Product](ctx, c.connection, Root+"/artifacts", query)
}
