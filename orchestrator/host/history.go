package host

import "context"

// historyAPI answers the calls about checkpoints and forks, and removes the layers that nothing needs.
type historyAPI struct {
	*core
	historyParts
}

func newHistoryAPI(c *core, parts historyParts) *historyAPI { return &historyAPI{c, parts} }

// historyParts are the parts of the host that a historyAPI uses.
type historyParts struct {
	sprites historyWorld
	catalog catalog
	layers  *layerStore
	merger  *merger
	settler *settler
}

// catalog is how forks become sprites.
type catalog interface {
	// checkNew refuses a sprite that cannot be made because of its name or labels.
	checkNew(name string, labels []string) error
	// admitCreation waits until another sprite may be made, or says why none may.
	admitCreation(ctx context.Context, wait bool) error
	// created tells those that watch the list, and describes the new sprite as the API does.
	created(rec spriteRecord) any
}

// historyWorld is how the history of sprites gets at them.
type historyWorld interface {
	// enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others.
	enter(ctx context.Context, name string, weight int64) (s *sprite, rec spriteRecord, leave func(), err error)
}
