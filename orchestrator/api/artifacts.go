package api

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/artifact"
)

// Artifacts is the part of Service for the files that runs declare as their products.
type Artifacts interface {
	// Artifact reads a file that a run declared, from the copy that was kept or from the run's sprite. ref is the name
	// that the ARTIFACT event gave it; other files are refused. The caller checks size and digest.
	Artifact(ctx context.Context, id, ref string) (io.ReadCloser, error)
	// Products lists artifacts of all runs, the newest first.
	Products(ctx context.Context, q ProductQuery) ([]artifact.Product, error)
}

func artifactRoutes(s Artifacts) []route.Route {
	return []route.Route{
		productsRoute(s),
		route.Raw[route.Bytes](route.Viewer, http.MethodGet, "/runs/{id}/artifact", "Read a file that a run declared.", mediaBytes, func(w http.ResponseWriter, r *http.Request) {
			content, err := s.Artifact(r.Context(), route.ID(r), r.FormValue("ref"))
			if err != nil {
				exchange.Fail(w, err)
				return
			}
			defer content.Close()
			w.Header().Set("Content-Type", mediaBytes)
			if _, err := io.Copy(w, content); err != nil {
				panic(http.ErrAbortHandler) // the client must not take this for the file's end
			}
		}, route.String("ref", "the name that the run gave the file")),
	}
}

// Artifact reads a file that a run declared; see Artifacts. The caller closes it.
func (c RunCalls) Artifact(ctx context.Context, id, ref string) (io.ReadCloser, error) {
	resp, err := c.Do(ctx, "GET", runPath(id, "artifact"), url.Values{"ref": {ref}}, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// ProductQuery selects from the registry of artifacts.
type ProductQuery struct {
	Kind, Run, Intent, Repo string
	Before                  string // only those that follow this one, RUN@SEQ, in the list
	Limit                   int    // 0 is 100
}

func productsRoute(s Artifacts) route.Route {
	return route.List("/artifacts", "List artifacts of all runs, the newest first.", route.Before, artifact.Product.Name, func(r *http.Request, p exchange.Page) ([]artifact.Product, error) {
		return s.Products(r.Context(), ProductQuery{Kind: r.FormValue("kind"), Run: r.FormValue("run"), Intent: r.FormValue("intent"), Repo: r.FormValue("repo"), Before: p.Last, Limit: p.Limit})
	}, route.String("kind", "branch, commit, file, pull_request, issue, or as declared; junit or sarif for files that are such reports"), route.String("run", "only those of a run"),
		route.String("intent", "only those of an intent"), route.String("repo", "only those of runs on a repository"))
}

// Products lists artifacts of all runs, the newest first.
func (c RunCalls) Products(ctx context.Context, q ProductQuery) ([]artifact.Product, error) {
	query := queryOf("kind", q.Kind, "run", q.Run, "intent", q.Intent, "repo", q.Repo, "limit", strconv.Itoa(cmp.Or(q.Limit, exchange.UsualLimit)), route.Before, q.Before)
	return callList[artifact.Product](ctx, c.connection, Root+"/artifacts", query)
}
