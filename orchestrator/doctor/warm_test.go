package doctor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/share"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestWarmProblem checks the code of each thing that a machine lacks for a shared cache.
func TestWarmProblem(t *testing.T) {
	for code, err := range map[string]error{
		"no_go": share.ErrNoGo, "no_namespaces": share.ErrPlain, "no_cache_directory": share.ErrNoShared, "warming": share.ErrWarming,
	} {
		if e := fault.As(warmProblem(fmt.Errorf("warm: %w", err))); e == nil || e.Code != code || e.Hint == "" {
			t.Errorf("warmProblem of %v = %+v, want %s with a hint", err, e, code)
		}
	}
	if other := errors.New("another error"); warmProblem(other) != other || warmProblem(nil) != nil {
		t.Error("warmProblem changes other errors")
	}
}
