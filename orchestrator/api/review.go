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

func routeReview(mux *http.ServeMux, s Review) {
	mux.HandleFunc("GET /v1/run/patch", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Proposed(r.Context(), r.FormValue("id"), r.FormValue("wait"))
		reply(w, out, err)
	})
	mux.HandleFunc("GET /v1/run/compare/patch", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.ComparedFiles(r.Context(), r.FormValue("id"), r.FormValue("from"), r.FormValue("to"))
		reply(w, out, err)
	})
}

// Proposed returns the content of the push that a run proposes.
func (c *Client) Proposed(ctx context.Context, id, wait string) (Patch, error) {
	return call[Patch](ctx, c, "GET", "/v1/run/patch", url.Values{"id": {id}, "wait": {wait}}, nil)
}

// ComparedFiles is the content of the files that differ between two moments of a run.
func (c *Client) ComparedFiles(ctx context.Context, id, from, to string) (Patch, error) {
	return call[Patch](ctx, c, "GET", "/v1/run/compare/patch", url.Values{"id": {id}, "from": {from}, "to": {to}}, nil)
}
