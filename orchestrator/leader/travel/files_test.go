package travel

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// TestExplainFile: a file that cannot be read is explained, and a failure of the host stays one.
func TestExplainFile(t *testing.T) {
	t.Parallel()
	for code, err := range map[string]error{
		"file_not_found":  fmt.Errorf("read /x: %w", sprites.ErrNotFound),
		"file_too_large":  fmt.Errorf("read /x: %w", sprites.ErrTooLarge),
		"file_unreadable": fmt.Errorf("read /x: %w", &sprites.APIError{Status: 400, Code: "EISDIR", Message: "is a directory"}),
	} {
		if p := fault.As(explainFile(err, "run_1", "/x")); p == nil || p.Fault.Code != code {
			t.Errorf("%v is explained as %v, want %s", err, p, code)
		}
	}
	broken := errors.New("the host is gone")
	if err := explainFile(broken, "run_1", "/x"); !errors.Is(err, broken) || fault.As(err) != nil {
		t.Errorf("a failure of the host is explained as %v", err)
	}
}
