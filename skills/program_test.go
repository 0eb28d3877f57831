package skills

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/spritekit/lattice/skills/proc"
)

// A program that is stopped before it begins did not succeed.
func TestProgramStoppedBefore(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var set Set
	exit, err := set.Program(ctx, proc.Spec{Argv: []string{"true"}, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: io.Discard, Stderr: io.Discard})
	if exit != 130 || err != nil {
		t.Errorf("exit = %d, %v; want 130", exit, err)
	}
}
