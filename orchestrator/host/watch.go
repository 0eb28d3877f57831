package host

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

// heartbeat is how often a watcher of the list hears that the host is there.
const heartbeat = 15 * time.Second

// stateEvent is a line of the stream of the list: how a sprite stands, and all of them counted.
type stateEvent struct {
	Type           string     `json:"type,omitempty"` // "heartbeat", or nothing
	Name           string     `json:"name,omitempty"`
	Status         string     `json:"status,omitempty"` // also "deleted"
	RunningVersion string     `json:"running_version,omitempty"`
	LastRunningAt  *time.Time `json:"last_running_at,omitempty"`
	LastWarmingAt  *time.Time `json:"last_warming_at,omitempty"`
	Timestamp      time.Time  `json:"timestamp"`
	Org            summary    `json:"org"`
}

// wantsStream reports whether a request for the list asks to be told of changes.
func wantsStream(r *http.Request) bool {
	for accept := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		if kind, _, err := mime.ParseMediaType(accept); err == nil && kind == "application/x-ndjson" {
			return true
		}
	}
	return false
}

// watchSprites answers with how each sprite stands, and then with each change until the client leaves. A client that
// reads slowly hears of the last of several changes.
func (a *spriteAPI) watchSprites(w http.ResponseWriter, r *http.Request, prefix string) error {
	changed := a.fleet.changes.join()
	defer a.fleet.changes.part(changed)
	var names []string
	all, err := a.store.sprites()
	if err != nil {
		return err
	}
	for _, rec := range all {
		if strings.HasPrefix(rec.Name, prefix) {
			names = append(names, rec.Name)
		}
	}
	out := newLines(w)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	alive := a.beat(out) // so that the client is answered at once, be there sprites or not
	for alive && a.tellStates(out, names) {
		names = nil
		select {
		case <-r.Context().Done():
			return nil
		case <-tick.C:
			alive = a.beat(out)
		case <-changed.some:
			names = slices.DeleteFunc(changed.take(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		}
	}
	return nil
}

// beat says that the host is there; false when nobody hears it.
func (a *spriteAPI) beat(out *lines) bool {
	all, err := a.store.sprites()
	return err == nil && out.send(stateEvent{Type: "heartbeat", Timestamp: a.now(), Org: a.summarize(all)})
}

// tellStates sends a line for each sprite; false when nobody hears it.
func (a *spriteAPI) tellStates(out *lines, names []string) bool {
	if len(names) == 0 {
		return true
	}
	all, err := a.store.sprites()
	if err != nil {
		return false
	}
	sum := a.summarize(all)
	for _, name := range names {
		e := stateEvent{Name: name, Timestamp: a.now(), Org: sum}
		rec, err := a.store.sprite(name)
		switch {
		case errors.Is(err, errNoSprite):
			e.Status = "deleted"
		case err != nil:
			return false
		default:
			state := a.fleet.state(rec)
			e.Status, e.LastRunningAt, e.LastWarmingAt = string(state.status), state.running, state.warmed
			e.RunningVersion = strings.TrimPrefix(apiVersion, "v")
		}
		if !out.send(e) {
			return false
		}
	}
	return true
}

// changes tells watchers which sprites have changed. Its zero value has no watchers.
type changes struct {
	mu       boltfile.Lock // guards what follows
	watchers map[*watcher]bool
}

// watcher collects names until they are taken.
type watcher struct {
	some chan struct{} // holds a token when there may be names

	mu    boltfile.Lock // guards names
	names map[string]bool
}

func (c *changes) join() *watcher {
	w := &watcher{some: make(chan struct{}, 1), names: map[string]bool{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = map[*watcher]bool{}
	}
	c.watchers[w] = true
	return w
}

func (c *changes) part(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watchers, w)
}

// tell never waits.
func (c *changes) tell(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		w.mu.Lock()
		w.names[name] = true
		w.mu.Unlock()
		select {
		case w.some <- struct{}{}:
		default:
		}
	}
}

// take returns the names that have changed since the last call, sorted.
func (w *watcher) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, 0, len(w.names))
	for name := range w.names {
		names = append(names, name)
	}
	clear(w.names)
	slices.Sort(names)
	return names
}
