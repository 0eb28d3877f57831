package fleet

import (
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

// changes tells watchers which sprites have changed. Its zero value has no watchers.
type changes struct {
	mu       boltfile.Lock // guards the fields below
	watchers map[*watcher]bool
}

// watcher collects names until they are taken.
type watcher struct {
	Some chan struct{} // holds a token when there may be names

	mu    boltfile.Lock // guards names
	names map[string]bool
}

func (c *changes) Join() *watcher {
	w := &watcher{Some: make(chan struct{}, 1), names: map[string]bool{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = map[*watcher]bool{}
	}
	c.watchers[w] = true
	return w
}

func (c *changes) Part(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watchers, w)
}

// Tell never waits.
func (c *changes) Tell(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		w.mu.Lock()
		w.names[name] = true
		w.mu.Unlock()
		select {
		case w.Some <- struct{}{}:
		default:
		}
	}
}

// Take returns the names that have changed since the last call, sorted.
func (w *watcher) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Collect(maps.Keys(w.names))
	clear(w.names)
	slices.Sort(names)
	return names
}
