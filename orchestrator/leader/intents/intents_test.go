package intents

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/spritekit/fault"
)

// An intent that waits for no approval cannot be approved.
func TestApproveRefuses(t *testing.T) {
	if _, err := new(Pipeline).approve(t.Context(), intent.State{ID: "i", Status: intent.Rejected}, api.IntentDecision{}); fault.As(err) == nil || fault.As(err).Code != "intent_state" {
		t.Errorf("approve = %v, want intent_state", err)
	}
}
