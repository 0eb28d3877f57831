package host

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// access is how the other parts of a host get at sprites.
type access interface {
	// enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others.
	enter(ctx context.Context, name string, weight int64) (s *sprite, rec spriteRecord, leave func(), err error)
	// use is enter for calls that need the sprite's sandbox running.
	use(ctx context.Context, name string) (s *sprite, box *sandbox.Box, done func(), err error)
	// runtime returns what runs of a sprite, without waking it.
	runtime(rec spriteRecord) (*sprite, error)
}
