package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// A leader that ends in the middle of an answer costs a reader nothing: the next one is asked, for entries from where the
// first one stopped.
func TestReadAcrossLeaders(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listen := func(h http.HandlerFunc) *httptest.Server {
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	half := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/runs" {
			fmt.Fprint(w, `[{"run_id":"run_1"},`)
		} else {
			fmt.Fprint(w, `{"seq":1}`+"\n"+`{"seq":2}`+"\n"+`{"se`)
		}
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	asked := ""
	whole := func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		if r.URL.Path == "/api/v1/runs" {
			fmt.Fprint(w, `[{"run_id":"run_1"}]`)
		} else {
			fmt.Fprint(w, `{"seq":3}`+"\n")
		}
	}
	read := func(do func(c *api.Client) error) {
		t.Helper()
		leader := listen(half)
		c := api.NewClient(socket)
		defer c.Close()
		c.Redial = func(context.Context) error {
			leader.Close()
			leader = listen(whole)
			return nil
		}
		if err := do(c); err != nil {
			t.Error(err)
		}
		leader.Close()
	}
	var seen []lattice.Seq
	read(func(c *api.Client) error {
		return c.Entries(t.Context(), "run_1", 0, func(e lattice.Entry) error { seen = append(seen, e.Seq); return nil })
	})
	if fmt.Sprint(seen) != "[1 2 3]" || !strings.Contains(asked, "after=2") {
		t.Errorf("entries %v, and the next leader was asked for %s; want 1 to 3, from behind 2", seen, asked)
	}
	read(func(c *api.Client) error {
		runs, err := c.Runs(t.Context(), api.RunList{})
		if len(runs) != 1 {
			t.Errorf("Runs = %v, want one", runs)
		}
		return err
	})
}
