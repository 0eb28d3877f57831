package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
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

// An error without a code about a file that is missing or must not be read has the exit code for it, in words and as JSON.
func TestReportFile(t *testing.T) {
	t.Parallel()
	for want, cause := range map[int]error{protocol.ExitNotFound: fs.ErrNotExist, protocol.ExitDenied: fs.ErrPermission, protocol.ExitFailed: fs.ErrClosed} {
		err := fmt.Errorf("copy: %w", &fs.PathError{Op: "open", Path: "/none", Err: cause})
		for _, asJSON := range []bool{false, true} {
			var out strings.Builder
			c := Console{Err: &out, JSON: asJSON}
			if code := c.Report(t.Context(), err); code != want || !strings.Contains(out.String(), "/none") {
				t.Errorf("Report(%v) printed %q and returned %d, want %d", err, out.String(), code, want)
			}
		}
		if code := (&Console{Err: io.Discard}).Report(t.Context(), UsageErrorf("x: %w", err)); code != protocol.ExitBadInput {
			t.Errorf("a wrong command line ends with %d", code)
		}
	}
}
