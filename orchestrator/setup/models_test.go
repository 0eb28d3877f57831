package setup

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Models that a run recorded and that this version does not know are refused.
func TestClientOfUnknownProvider(t *testing.T) {
	t.Parallel()

	_, err := Models{}.newClient(lattice.Models{Classes: map[string]lattice.ModelClass{"SMALL_EXEC": {Provider: "none", Model: "m"}}}, nil)
	if fault.As(err) == nil || fault.As(err).Code != "models_invalid" {
		t.Errorf("llmClient = %v, want models_invalid", err)
	}
}
