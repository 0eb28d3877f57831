package standby

import (
	"bytes"
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

// TestSilentLeader: while the leader is away a node answers each request, and says once in its log that the leader does not answer.
func TestSilentLeader(t *testing.T) {
	t.Parallel()
	leader := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer leader.Close()
	var said bytes.Buffer
	n := &Node{Log: zerolog.New(&said)}
	for i, address := range []string{"http://127.0.0.1:1", "http://127.0.0.1:1", leader.URL, "http://127.0.0.1:1", "http://127.0.0.1:1"} {
		n.lease.Store(&store.Lease{Address: address})
		w := httptest.NewRecorder()
		n.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/runs", nil))
		if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[address == leader.URL]; w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	if n := strings.Count(said.String(), "does not answer"); n != 2 {
		t.Errorf("two absences are told %d times: %s", n, &said)
	}
}
