// Package reach connects clients with sprites by proxies, ports and URLs, and applies the policies of network, privileges and
// resources.
package reach

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/services"
)

// API answers the calls that reach into sprites: proxies, ports and URLs.
type API struct {
	*core.Core
	sprites world
	urls    *urlServer // nil without URLs
}

func NewAPI(c *core.Core, sprites world) *API { return &API{Core: c, sprites: sprites} }

// world is how sprites are reached.
type world interface {
	// Admit counts a call that Close waits for.
	Admit() (done func(), ok bool)
	// Use returns the running sandbox of a sprite, which it starts if there is none.
	Use(ctx context.Context, name string) (s *fleet.Sprite, box *sandbox.Box, done func(), err error)
	// ServicesOf returns the services of a sprite, without waking it.
	ServicesOf(name string) (*services.Set, error)
}
