package standby

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/store"
)

// A node forwards a request once, under the name that its client used. Where no leader answers it says so, and never asks itself.
func TestForward(t *testing.T) {
	t.Parallel()
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(r.Host + " " + r.URL.Path + " " + r.Header.Get("Authorization")))
	}))
	defer leader.Close()
	n := &Node{Log: zerolog.Nop()}
	node := httptest.NewServer(n)
	defer node.Close()
	name := strings.TrimPrefix(node.URL, "http://")
	for address, want := range map[string]struct {
		status int
		body   string
	}{
		"":                   {http.StatusServiceUnavailable, "node_stands_by"},
		"http://\x7f":        {http.StatusServiceUnavailable, "node_stands_by"},
		"http://127.0.0.1:1": {http.StatusServiceUnavailable, "does not answer"},
		node.URL:             {http.StatusServiceUnavailable, "no node that serves leads"}, // of a former life
		leader.URL:           {http.StatusTeapot, name + " /hooks/gh Bearer T"},
	} {
		n.lease.Store(&store.Lease{Address: address})
		r := httptest.NewRequest("POST", node.URL+"/hooks/gh", strings.NewReader("{}"))
		r.RequestURI = ""
		r.Header.Set("Authorization", "Bearer T")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		if err := resp.Write(&body); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want.status || !strings.Contains(body.String(), want.body) {
			t.Errorf("%q: %s, want %d and %s", address, body.String(), want.status, want.body)
		}
	}
}
