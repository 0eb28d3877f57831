package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// PortsEvery is how often a sprite's ports are read while they have listeners.
const PortsEvery = 500 * time.Millisecond

// PortWatch looks at a sprite's ports for all who want to know of them. It neither wakes the sprite nor keeps it awake: of
// a sandbox that has ended, all ports are closed.
type PortWatch struct {
	sprite *Sprite

	mu        boltfile.Lock // guards the fields below
	listeners map[*PortListener]bool
	quit      context.CancelFunc // ends the looking; nil while there is none
}

// PortList lists the ports that were open at some time after Began.
type PortList struct {
	Began time.Time
	Ports []channel.Port
}

// PortListener gets each list, or the last one of several that it did not take.
type PortListener struct{ Lists chan PortList }

func (p *PortWatch) Join() *PortListener {
	l := &PortListener{Lists: make(chan PortList, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == nil {
		p.listeners = map[*PortListener]bool{}
	}
	p.listeners[l] = true
	if p.quit == nil {
		var ctx context.Context
		ctx, p.quit = context.WithCancel(p.sprite.fleet.Context)
		p.sprite.fleet.Chores.Go(func() { p.watchPorts(ctx) })
	}
	return l
}

func (p *PortWatch) Part(l *PortListener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.listeners, l)
	if len(p.listeners) == 0 && p.quit != nil {
		p.quit()
		p.quit = nil
	}
}

// watchPorts sends the listeners the open ports, until ctx ends.
func (p *PortWatch) watchPorts(ctx context.Context) {
	tick := time.NewTicker(PortsEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		if now, err := p.sprite.Ports(ctx); err == nil { // else it is being stopped, or stands still
			p.tellListeners(ctx, PortList{began, now})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (p *PortWatch) tellListeners(ctx context.Context, now PortList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return // others look by now
	}
	for l := range p.listeners {
		select {
		case <-l.Lists:
		default:
		}
		l.Lists <- now // only tell writes to it, so there is room
	}
}

// Ports lists the open ports of the sprite, without waking it.
func (s *Sprite) Ports(ctx context.Context) ([]channel.Port, error) {
	s.mu.Lock()
	box, frozen := s.box, s.life.thaw != nil
	s.mu.Unlock()
	if box == nil || hasEnded(box) {
		return nil, nil
	}
	if frozen {
		return nil, context.DeadlineExceeded
	}
	return box.Ports(ctx)
}

// PortChanges says how one list becomes another.
func PortChanges(before, now []channel.Port) []sprites.PortEvent {
	return slices.Concat(PortEvents("port_closed", subtractPorts(before, now)), PortEvents("port_opened", subtractPorts(now, before)))
}

func subtractPorts(all, minus []channel.Port) (rest []channel.Port) {
	for _, p := range all {
		if !slices.Contains(minus, p) {
			rest = append(rest, p)
		}
	}
	return rest
}

// PortEvents names ports by addresses that the proxy can be told to connect to.
func PortEvents(kind string, ports []channel.Port) []sprites.PortEvent {
	events := []sprites.PortEvent{}
	for _, p := range ports {
		switch p.Address {
		case "0.0.0.0":
			p.Address = "127.0.0.1"
		case "::":
			p.Address = "::1"
		}
		events = append(events, sprites.PortEvent{Type: kind, Port: p.Port, Address: p.Address, PID: p.PID})
	}
	return events
}
