package guest

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
)

// Init is gentle as long as a process that was told to stop had no processor to do it.
func TestWaits(t *testing.T) {
	told := snapshot{7: {Process: 7, State: 'S', Switches: 100}}
	for name, test := range map[string]struct {
		now  procfs.Posture
		want bool
	}{
		"not scheduled yet":       {procfs.Posture{Process: 7, State: 'R', Switches: 100}, true},
		"preempted in the kernel": {procfs.Posture{Process: 7, State: 'R', Switches: 102}, true},
		"woken again and again":   {procfs.Posture{Process: 7, State: 'R', Switches: 103}, false},
		"stopped":                 {procfs.Posture{Process: 7, State: 'T', Switches: 101}, false},
		"waiting for the kernel":  {procfs.Posture{Process: 7, State: 'D', Switches: 100}, false},
		"ended":                   {procfs.Posture{Process: 7, State: 'Z', Switches: 101}, false},
		"another one, never told": {procfs.Posture{Process: 8, State: 'R', Switches: 100}, false},
	} {
		if got := (snapshot{test.now.Process: test.now}).hasReady(told); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
