package services

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// endPosition returns where the next event of a service will be.
func (v *Set) endPosition(name string) uint64 {
	v.mu.Lock()
	l := v.logOf(name)
	v.mu.Unlock()
	return l.endPosition()
}

// streamEvents answers with the events of a service from a place on, until enough says so, the time is over or the client has left.
func (v *Set) streamEvents(w http.ResponseWriter, r *http.Request, name string, from uint64, length time.Duration, enough func(service) bool) {
	v.relayEvents(r.Context(), wire.NewLines(w), name, from, length, enough)
}

func (v *Set) relayEvents(ctx context.Context, out *wire.Lines, name string, from uint64, length time.Duration, enough func(service) bool) {
	over := time.NewTimer(length)
	defer over.Stop()
	out.Flush() // the client is to see at once that it is heard; if it is gone, the next write tells
	for last := length <= 0; ; {
		v.mu.Lock()
		log, changed := v.logOf(name), v.changed
		s := v.machine.services[name]
		last = last || s == nil || enough != nil && enough(*s)
		v.mu.Unlock()
		events, next, missed, grown := log.eventsAfter(from)
		from = next
		if missed > 0 && !out.SendAll([]sprites.ServiceEvent{{
			Type: "error", Data: fmt.Sprintf("%d events came faster than they were read and are left out here; the log file has more of them", missed), Timestamp: v.Now().UnixMilli(),
		}}) || !out.SendAll(events) {
			return
		}
		if last {
			out.Send(sprites.ServiceEvent{Type: "complete", LogFiles: logFiles(name), Timestamp: v.Now().UnixMilli()})
			return
		}
		if enough == nil {
			changed = nil // only events matter
		}
		select {
		case <-grown:
		case <-changed:
		case <-over.C:
			last = true
		case <-v.exists.Done():
			if v.Context.Err() != nil {
				return // the service has not ended
			}
			last = true
		case <-ctx.Done():
			return
		}
	}
}

// awaitState waits until a service's state is as ok says, or it is gone.
func (v *Set) awaitState(ctx context.Context, name string, ok func(service) bool) error {
	for {
		v.mu.Lock()
		s, changed := v.machine.services[name], v.changed
		over := s == nil || ok(*s)
		v.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
