package host

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// reachAPI answers the calls that reach into sprites: proxies, ports and URLs.
type reachAPI struct {
	*core
	sprites reachWorld
	urls    *urlServer // nil without URLs
}

func newReachAPI(c *core, sprites reachWorld) *reachAPI { return &reachAPI{core: c, sprites: sprites} }

// reachWorld is how sprites are reached.
type reachWorld interface {
	// admit counts a call that Close waits for.
	admit() (done func(), ok bool)
	// use returns the running sandbox of a sprite, which it starts if there is none.
	use(ctx context.Context, name string) (s *sprite, box *sandbox.Box, done func(), err error)
	// servicesOf returns the services of a sprite, without waking it.
	servicesOf(name string) (*services, error)
}
