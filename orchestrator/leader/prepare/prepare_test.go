package prepare

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A run whose sprite the host refuses to make fails; one that names a sprite that is not there does as well.
func TestEnsureSpriteRefuses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status := http.StatusNotFound
		if r.Method == http.MethodPost {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"code":"refused","message":"the name is too long"}`))
	}))
	defer server.Close()
	p := Preparer{Client: sprites.New(server.URL, "t", server.Client())}
	for code, own := range map[string]bool{"sprite_refused": true, "sprite_not_found": false} {
		err := p.ensureSprite(t.Context(), "run_1", "box", api.Options{OwnSprite: own})
		var refusal *lattice.Refusal
		if !errors.As(err, &refusal) || refusal.Fault.Code != code {
			t.Errorf("ensureSprite = %v, want %s", err, code)
		}
	}
}
