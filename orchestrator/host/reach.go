package host

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// reachAPI answers the calls that reach into sprites: proxies, ports and URLs.
type reachAPI struct {
	*core
	sprites  reachable
	services serviceFinder
	urls     *urlServer // nil without URLs
}

func newReachAPI(c *core, sprites reachable, services serviceFinder) *reachAPI {
	return &reachAPI{core: c, sprites: sprites, services: services}
}

// reachable is how sprites are reached.
type reachable interface {
	// admit counts a call that Close waits for.
	admit() (done func(), ok bool)
	// use returns the running sandbox of a sprite, which it starts if there is none.
	use(ctx context.Context, name string) (s *sprite, box *sandbox.Box, done func(), err error)
}
