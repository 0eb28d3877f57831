// Package catalog answers the calls about sprites as a whole, which it creates, lists, describes and deletes, and about the
// images that they start from.
package catalog

import (
	"context"

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
	Images   imageTaker
	URLs     urlFinder
}

// urlFinder knows the URLs of sprites.
type urlFinder interface {
	// URLOf returns the URL of a sprite, "" when URLs are not served.
	URLOf(name string) string
}

// imageTaker finds the images that new sprites start from.
type imageTaker interface {
	// takeImage returns the digest of an image, "" for this machine's own system. The image stays until done is called.
	takeImage(ctx context.Context, ref, sprite string) (digest string, done func(), err error)
}
