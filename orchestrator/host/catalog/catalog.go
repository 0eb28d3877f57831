// Package catalog answers the calls about sprites as a whole, which it creates, lists, describes and deletes, and about the
// images that they start from.
package catalog

import (
	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/network"
	"github.com/spritekit/lattice/orchestrator/host/share"
	"github.com/spritekit/lattice/orchestrator/host/storage"
)

// API answers the calls about sprites as a whole: it makes, shows, changes and deletes them.
type API struct {
	*core.Core
	Parts
}

func NewAPI(c *core.Core, parts Parts) *API { return &API{c, parts} }

// Parts are the parts of the host that an [API] uses.
type Parts struct {
	Fleet    *fleet.Fleet
	Confiner *confine.Confiner
	Layers   *storage.Store
	Network  *network.Policy
	Skills   *share.Skills
	Images   *Images
	URLOf    func(name string) string // of a sprite; "" when URLs are not served
}
