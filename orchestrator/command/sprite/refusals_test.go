package sprite

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A host without URLs, addresses, logins or forks is met with an error that says so.
func TestHostsThatLackParts(t *testing.T) {
	t.Parallel()
	url := `"url":"http://box.localhost:1/",`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"no such route"}`))
			return
		}
		_, _ = w.Write([]byte(`{` + url + `"name":"box"}`))
	}))
	defer server.Close()
	c := sprites.New(server.URL, "t", server.Client())
	console := &cli.Console{Out: io.Discard, Err: io.Discard}
	for _, test := range []struct {
		code string
		call func(context.Context) error
	}{
		{"no_fork", func(ctx context.Context) error {
			_, err := c.Fork(ctx, "box", sprites.Current, "two", "")
			return forkProblem(ctx, c, "box", sprites.Current, "two", err)
		}},
		{"no_address", func(ctx context.Context) error { return showURL(ctx, console, c, "box", "", false, true) }},
		{"no_login", func(ctx context.Context) error { return showURL(ctx, console, c, "box", "", true, false) }},
		{"no_url", func(ctx context.Context) error { url = ""; return showURL(ctx, console, c, "box", "", false, false) }},
	} {
		if err := test.call(t.Context()); fault.As(err) == nil || fault.As(err).Code != test.code {
			t.Errorf("%v, want %s", err, test.code)
		}
	}
}
