package problem

import (
	"fmt"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestSpriteProblem checks which code and exit code each answer of the Sprites API has.
func TestSpriteProblem(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		code string
		exit int
	}{
		401: {"denied", protocol.ExitDenied}, 403: {"denied", protocol.ExitDenied}, 404: {"not_found", protocol.ExitNotFound},
		409: {"conflict", protocol.ExitBusy}, 429: {"limited", protocol.ExitBusy}, 507: {"disk_full", protocol.ExitLimit},
		400: {"refused", protocol.ExitBadInput}, 502: {"unavailable", protocol.ExitNetwork}, 503: {"unavailable", protocol.ExitNetwork}, 504: {"unavailable", protocol.ExitNetwork},
	} {
		err := SpriteProblem(fmt.Errorf("wake: %w", &sprites.APIError{Status: status}))
		if e := fault.As(err); e == nil || e.Code != want.code || e.Exit != want.exit {
			t.Errorf("SpriteProblem of %d = %+v, want %s with exit %d", status, err, want.code, want.exit)
		}
	}
}
