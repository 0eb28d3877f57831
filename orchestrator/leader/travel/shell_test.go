package travel

import (
	"net/http/httptest"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
)

// TestShellsAreBounded: a shell needs a WebSocket, and no more than maxShells are open. A refused one takes no place.
func TestShellsAreBounded(t *testing.T) {
	t.Parallel()
	s := &Shells{}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	if p := fault.As(s.ServeShell(nil, r, "run_1", "", 0, 0)); p == nil || p.Fault.Code != "bad_request" {
		t.Errorf("without a WebSocket: %v", p)
	}
	r.Header.Set("Upgrade", "websocket")
	s.open.Store(maxShells)
	if p := fault.As(s.ServeShell(nil, r, "run_1", "", 0, 0)); p == nil || p.Fault.Code != "too_many_shells" {
		t.Errorf("beyond the bound: %v", p)
	}
	if n := s.open.Load(); n != maxShells {
		t.Errorf("%d shells are counted, want %d", n, maxShells)
	}
}
