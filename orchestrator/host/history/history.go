// Package history answers the calls about checkpoints: it creates, restores, forks, compares and deletes them, and removes
// the layers that nothing refers to.
package history

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/storage"
)

// API answers the calls about checkpoints and forks, and removes the layers that nothing needs.
type API struct {
	*core.Core
	Parts
}

func NewAPI(c *core.Core, parts Parts) *API { return &API{c, parts} }

// Parts are the parts of the host that an [API] uses.
type Parts struct {
	Sprites world
	Catalog catalog
	Layers  *storage.Store
	Merger  *storage.Merger
	Settler *storage.Settler
}

// catalog is how forks become sprites.
type catalog interface {
	// CheckNew refuses a sprite that cannot be made because of its name or labels.
	CheckNew(name string, labels []string) error
	// AdmitCreation waits until another sprite may be made, or says why none may.
	AdmitCreation(ctx context.Context, wait bool) error
	// Created tells those that watch the list, and describes the new sprite as the API does.
	Created(rec records.Sprite) any
}

// world is how the history of sprites gets at them.
type world interface {
	// Enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others.
	Enter(ctx context.Context, name string, weight int64) (s *fleet.Sprite, rec records.Sprite, leave func(), err error)
}
