package host

import "context"

// historyAPI answers the calls about checkpoints and forks, and removes the layers that nothing needs.
type historyAPI struct {
	*core
	sprites access
	catalog catalog
	changes *changes
	layers  *layerStore
	merger  *merger
	settler *settler
}

// catalog is how forks become sprites.
type catalog interface {
	// admitCreation waits until another sprite may be made, or says why none may.
	admitCreation(ctx context.Context, wait bool) error
	// object describes a sprite as the API does.
	object(rec spriteRecord) spriteObject
}
