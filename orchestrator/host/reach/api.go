// Package reach connects clients with sprites by proxies, ports and URLs, and applies the policies of network, privileges and
// resources.
package reach

import (
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
)

// API answers the calls that reach into sprites: proxies, ports and URLs.
type API struct {
	*core.Core
	sprites *fleet.Fleet
	urls    *urlServer // nil without URLs
}

func NewAPI(c *core.Core, sprites *fleet.Fleet) *API { return &API{Core: c, sprites: sprites} }
