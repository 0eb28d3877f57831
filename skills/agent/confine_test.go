package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/readonly"
)

// An agent that shall be read-only does not start where the kernel cannot enforce that.
func TestReadOnlyUnavailable(t *testing.T) {
	var f *fault.Error
	if err := explainConfinement(fmt.Errorf("start: %w", readonly.ErrUnavailable)); !errors.As(err, &f) || f.Fault.Code != "read_only_unavailable" || f.Exit != 8 {
		t.Errorf("the error is %v", err)
	}
	if err := explainConfinement(errors.ErrUnsupported); err != errors.ErrUnsupported {
		t.Errorf("another error became %v", err)
	}
}
