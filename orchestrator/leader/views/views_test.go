package views

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestStopProblem: a run that stops for a reason outside of it ends its command as that reason asks for, and says how to
// go on.
func TestStopProblem(t *testing.T) {
	t.Parallel()
	const goOn = "lattice resume run_1"
	conn := func(sent bool) error { return &sprites.ConnError{Server: "host:1", Sent: sent, Err: io.EOF} }
	for name, tt := range map[string]struct {
		err  error
		exit int
		code string
		hint string
	}{
		"no service":    {conn(false), protocol.ExitNetwork, "connection_failed", "check SPRITES_API_URL and the network, then: " + goOn},
		"cut off":       {conn(true), protocol.ExitNetwork, "connection_failed", goOn},
		"stream lost":   {&sprites.LostError{Session: "1", Err: io.EOF}, protocol.ExitNetwork, "connection_lost", goOn},
		"wrong token":   {&sprites.APIError{Status: 401}, protocol.ExitDenied, "denied", "check SPRITES_TOKEN: the service does not accept it for this, then: " + goOn},
		"another page":  {&sprites.ForeignError{Status: 200}, protocol.ExitNetwork, "connection_failed", "check SPRITES_API_URL, and whether a proxy on the way answers for it, then: " + goOn},
		"disk full":     {syscall.ENOSPC, protocol.ExitLimit, "disk_full", "free some space, then: lattice resume"},
		"something odd": {errors.New("odd"), 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := stopProblem("run_1", fmt.Errorf("prepare: %w", tt.err))
			if tt.code == "" {
				if p != nil {
					t.Errorf("stopProblem = %+v, want nil", p)
				}
				return
			}
			if p == nil || p.Exit != tt.exit || p.Fault.Code != tt.code || p.Fault.Hint != tt.hint {
				t.Errorf("stopProblem = %+v, want exit %d, %s, %q", p, tt.exit, tt.code, tt.hint)
			}
		})
	}
}
