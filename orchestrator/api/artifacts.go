package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Artifacts is the part of Service for the files that runs declare as their products.
type Artifacts interface {
	// Artifact reads a file that a run declared, from the copy that was kept or from the run's sprite. ref is the name
	// that the ARTIFACT event gave it; other files are refused. The caller checks size and digest.
	Artifact(ctx context.Context, id, ref string) (io.ReadCloser, error)
	// Products lists artifacts of all runs, the newest first.
	Products(ctx context.Context, q ProductQuery) ([]Product, error)
}

func routeArtifacts(mux *http.ServeMux, s Artifacts) {
	routeProducts(mux, s)
	mux.HandleFunc("GET /v1/run/artifact", func(w http.ResponseWriter, r *http.Request) {
		content, err := s.Artifact(r.Context(), r.FormValue("id"), r.FormValue("ref"))
		if err != nil {
			fail(w, err)
			return
		}
		defer content.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		if _, err := io.Copy(w, content); err != nil {
			panic(http.ErrAbortHandler) // the client must not take this for the file's end
		}
	})
}

// Artifact reads a file that a run declared; see Artifacts. The caller closes it.
func (c *Client) Artifact(ctx context.Context, id, ref string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, "GET", "/v1/run/artifact", url.Values{"id": {id}, "ref": {ref}}, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
