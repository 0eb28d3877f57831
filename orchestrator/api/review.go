package api

import (
	"context"
	"net/http"
	"net/url"
)

// Review is the part of Service that shows the content of changes.
type Review interface {
	// Proposed is the content of the push that a run waits for; wait names one of several waits, "" is the only one. Of a
	// run that waits for none it is the last push that it asked for.
	Proposed(ctx context.Context, id, wait string) (Patch, error)
	// ComparedFiles is the content of the files that Compare lists.
	ComparedFiles(ctx context.Context, id, from, to string) (Patch, error)
}

// Patch is the content of a change, as git diff prints it. Its text is a sprite's: it may hold anything.
type Patch struct {
	Text string `json:"patch"`
	Cut  bool   `json:"patch_cut,omitempty"`  // there is more
	Note string `json:"patch_note,omitempty"` // which files are left out, and why
}

func reviewRoutes(s Review) []Route {
	return []Route{
		get("/runs/{id}/patch", "Return the content of the push that a run proposes.",
			func(r *http.Request) (Patch, error) { return s.Proposed(r.Context(), idOf(r), r.FormValue("wait")) },
			Param{"wait", "string", "one of several waits"}),
		get("/runs/{id}/compare/patch", "Return the content of the files that differ between two moments of a run.",
			func(r *http.Request) (Patch, error) {
				return s.ComparedFiles(r.Context(), idOf(r), r.FormValue("from"), r.FormValue("to"))
			}, momentParams...),
	}
}

// Proposed returns the content of the push that a run proposes.
func (c RunCalls) Proposed(ctx context.Context, id, wait string) (Patch, error) {
	return call[Patch](ctx, c.connection, "GET", runPath(id, "patch"), url.Values{"wait": {wait}}, nil)
}

// ComparedFiles is the content of the files that differ between two moments of a run.
func (c RunCalls) ComparedFiles(ctx context.Context, id, from, to string) (Patch, error) {
	return call[Patch](ctx, c.connection, "GET", runPath(id, "compare/patch"), url.Values{"from": {from}, "to": {to}}, nil)
}
