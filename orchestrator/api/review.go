package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Review is the part of Service that shows the content of changes.
type Review interface {
	// Proposed is the content of the push that a run waits for; wait names one of several waits, "" is the only one. Of a
	// run that waits for none it is the last push that it asked for.
	Proposed(ctx context.Context, id, wait string) (difference.Patch, error)
	// ComparedFiles is the content of the files that Compare lists.
	ComparedFiles(ctx context.Context, id, from, to string) (difference.Patch, error)
	// CompareRuns returns the differences between the present of two runs.
	CompareRuns(ctx context.Context, id, with string) (RunComparison, error)
	// Candidates lists the attempts that a run makes side by side.
	Candidates(ctx context.Context, id string) ([]Candidate, error)
}

// RunComparison holds the differences between the present of two runs.
type RunComparison struct {
	RunID string                `json:"run_id"`
	With  string                `json:"with"`
	Nodes []difference.Node     `json:"nodes"` // that either run began
	Vars  []difference.Variable `json:"vars"`  // variables, and members of outputs
	Files []sprites.Change      `json:"files"`
	Note  string                `json:"note,omitempty"` // why files are not compared
	difference.Patch
}

func reviewRoutes(s Review) []route.Route {
	return []route.Route{
		route.Get("/runs/{id}/patch", "Return the content of the push that a run proposes.",
			func(r *http.Request) (difference.Patch, error) {
				return s.Proposed(r.Context(), route.ID(r), r.FormValue("wait"))
			},
			route.String("wait", "one of several waits")),
		route.Get("/runs/{id}/compare/patch", "Return the content of the files that differ between two moments of a run.",
			func(r *http.Request) (difference.Patch, error) {
				return s.ComparedFiles(r.Context(), route.ID(r), r.FormValue("from"), r.FormValue("to"))
			}, momentParams...),
		route.Get("/runs/{id}/compare/run", "Return the differences between the present of two runs, node by node and file by file.",
			func(r *http.Request) (RunComparison, error) {
				return s.CompareRuns(r.Context(), route.ID(r), r.FormValue("with"))
			},
			route.String("with", "the other run; by default the newest")),
	}
}

// Proposed returns the content of the push that a run proposes.
func (c RunCalls) Proposed(ctx context.Context, id, wait string) (difference.Patch, error) {
	return call[difference.Patch](ctx, c.connection, "GET", runPath(id, "patch"), url.Values{"wait": {wait}}, nil)
}

// ComparedFiles is the content of the files that differ between two moments of a run.
func (c RunCalls) ComparedFiles(ctx context.Context, id, from, to string) (difference.Patch, error) {
	return call[difference.Patch](ctx, c.connection, "GET", runPath(id, "compare/patch"), url.Values{"from": {from}, "to": {to}}, nil)
}

// CompareRuns returns the differences between two runs.
func (c RunCalls) CompareRuns(ctx context.Context, id, with string) (RunComparison, error) {
	return call[RunComparison](ctx, c.connection, "GET", runPath(id, "compare/run"), url.Values{"with": {with}}, nil)
}
