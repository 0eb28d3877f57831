package retention

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A copy is refused where its name belongs to another run, and where its checkpoint is gone.
func TestEnsureRefuses(t *testing.T) {
	t.Parallel()
	found := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet || !found {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"checkpoint_not_found","message":"not found"}`))
			return
		}
		_, _ = w.Write([]byte(`{"name":"copy","labels":["lattice-copy:run_other"]}`))
	}))
	defer server.Close()
	c := Copies{Client: sprites.New(server.URL, "t", server.Client())}
	for _, code := range []string{"checkpoint_gone", "sprite_taken"} {
		err := c.Ensure(t.Context(), CopyLabel("run_1"), lattice.Pair{Sprite: "box", CheckpointID: "v1"}, "copy")
		var refusal *lattice.Refusal
		if !errors.As(err, &refusal) || refusal.Fault.Code != code {
			t.Errorf("Ensure = %v, want %s", err, code)
		}
		found = true
	}
}
