package cli

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestReportInterrupted reports what a command returns after Ctrl-C.
func TestReportInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for want, err := range map[string]error{
		"lattice: interrupted\n":                      context.Canceled,
		"lattice: follow the run: context canceled\n": fmt.Errorf("follow the run: %w", context.Canceled),
	} {
		var out bytes.Buffer
		c := Console{Err: &out}
		if code := c.Report(ctx, err); code != protocol.ExitCancelled || out.String() != want {
			t.Errorf("Report(%v) printed %q and returned %d, want %q and %d", err, out.String(), code, want, protocol.ExitCancelled)
		}
	}
}
