package thread_test

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// TestParse reads names of threads.
func TestParse(t *testing.T) {
	for _, bad := range []string{"", "main", "main:acme/site", "main:acme/site#", "main:acme/site#x", "main:acme/site#1x", "main:acme/site#01", "main:acme#1", "main:../x#1"} {
		if got, ok := thread.Parse(bad); ok {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
	const name = "main:acme/site#1"
	if got, ok := thread.Parse(name); !ok || got.String() != name {
		t.Errorf("%q is read as %v", name, got)
	}
}
