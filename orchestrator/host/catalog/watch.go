package catalog

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
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
func (a *API) watchSprites(w http.ResponseWriter, r *http.Request, prefix string) error {
	changed := a.Fleet.Changes.Join()
	defer a.Fleet.Changes.Part(changed)
	var names []string
	all, err := a.Store.Sprites()
	if err != nil {
		return err
	}
	for _, rec := range all {
		if strings.HasPrefix(rec.Name, prefix) {
			names = append(names, rec.Name)
		}
	}
	out := wire.NewLines(w)
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
		case <-changed.Some:
			names = slices.DeleteFunc(changed.Take(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		}
	}
	return nil
}

// beat sends a heartbeat, and reports whether the client is still there.
func (a *API) beat(out *wire.Lines) bool {
	all, err := a.Store.Sprites()
	return err == nil && out.Send(stateEvent{Type: "heartbeat", Timestamp: a.Now(), Org: a.summarize(all)})
}

// tellStates sends a line for each sprite, and reports whether the client is still there.
func (a *API) tellStates(out *wire.Lines, names []string) bool {
	if len(names) == 0 {
		return true
	}
	all, err := a.Store.Sprites()
	if err != nil {
		return false
	}
	sum := a.summarize(all)
	for _, name := range names {
		e := stateEvent{Name: name, Timestamp: a.Now(), Org: sum}
		rec, err := a.Store.Sprite(name)
		switch {
		case errors.Is(err, records.ErrNoSprite):
			e.Status = "deleted"
		case err != nil:
			return false
		default:
			state := a.Fleet.State(rec)
			e.Status, e.LastRunningAt, e.LastWarmingAt = string(state.Status), state.Running, state.Warmed
			e.RunningVersion = strings.TrimPrefix(wire.Version, "v")
		}
		if !out.Send(e) {
			return false
		}
	}
	return true
}
