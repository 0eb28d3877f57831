package skill

import (
	"context"
	"io"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// IO is the three streams of a call.
type IO struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Serve carries one call from stdin to its exit code.
func Serve(ctx context.Context, s Skill, m manifests.Skill, env Env, streams IO) (exit int) {
	return protocol.ExitInternal
}

func withPostMortem(socket string, e protocol.Error) protocol.Error { return e }
