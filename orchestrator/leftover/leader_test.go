package leftover

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
)

// The repair of each leftover of a leader asks it for that one thing: to drive the run, to remove the sprite.
func TestOfLeader(t *testing.T) {
	answers := map[string]string{
		"GET /runs":                 `[{"run_id":"run_left","status":"running","sprite":"run-left"},{"run_id":"run_works","status":"running","driving":true}]`,
		"GET /runs/run_left":        `{"run_id":"run_left","status":"running"}`,
		"POST /runs/run_left/drive": `{"run_id":"run_left"}`,
		"POST /prune":               `{"result":[{"kind":"sprite","name":"run-old"}]}`,
	}
	var repairs []string
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := r.Method + " " + strings.TrimPrefix(r.URL.Path, api.Root)
		if r.Method == http.MethodPost {
			repairs = append(repairs, route)
		}
		answer, ok := answers[route]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"error":{"code":"run_not_found","message":"there is none"},"exit":3}`
		}
		_, _ = w.Write([]byte(answer))
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	c := api.NewClient(socket)
	defer c.Close()
	all, err := OfLeader(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	orphans, err := OfSprites(t.Context(), c, map[string]string{"run-left": "run_left", "run-gone": "run_gone"}, func(_ context.Context, sprite string) error {
		repairs = append(repairs, "remove "+sprite)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	repairs = nil // the looks
	var found []string
	for _, l := range append(all, orphans...) {
		found = append(found, l.Kind+" "+l.Name)
		if l = l.Fix(t.Context()); !l.Fixed || l.Detail == "" || l.Remedy == "" {
			t.Errorf("leftover %+v", l)
		}
	}
	if want := []string{"run run_left", "outbox run-left", "sprite run-old", "sprite run-gone"}; !slices.Equal(found, want) {
		t.Errorf("the leftovers are %q, want %q", found, want)
	}
	if want := []string{"POST /runs/run_left/drive", "POST /prune", "remove run-gone"}; !slices.Equal(repairs, want) {
		t.Errorf("the repairs are %q, want %q", repairs, want)
	}
}
