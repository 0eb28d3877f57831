package host

import (
	"context"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// portsEvery is how often a sprite's ports are looked at while somebody wants to know. Nobody looks at those of others.
const portsEvery = 500 * time.Millisecond

// portWatch looks at a sprite's ports for all who want to know of them. It neither wakes the sprite nor keeps it awake: of
// a sandbox that has ended, all ports are closed.
type portWatch struct {
	sprite *sprite

	mu        boltfile.Lock // guards the fields below
	listeners map[*portListener]bool
	quit      context.CancelFunc // ends the looking; nil while there is none
}

// portList is what listened at some time after began.
type portList struct {
	began time.Time
	ports []sandbox.Port
}

// portListener gets each list, or the last one of several that it did not take.
type portListener struct{ lists chan portList }

func (p *portWatch) join() *portListener {
	l := &portListener{lists: make(chan portList, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == nil {
		p.listeners = map[*portListener]bool{}
	}
	p.listeners[l] = true
	if p.quit == nil {
		var ctx context.Context
		ctx, p.quit = context.WithCancel(p.sprite.fleet.ctx)
		p.sprite.fleet.chores.Go(func() { p.look(ctx) })
	}
	return l
}

func (p *portWatch) part(l *portListener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.listeners, l)
	if len(p.listeners) == 0 && p.quit != nil {
		p.quit()
		p.quit = nil
	}
}

// look tells the listeners what there is, until ctx ends.
func (p *portWatch) look(ctx context.Context) {
	tick := time.NewTicker(portsEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		if now, err := p.sprite.ports(ctx); err == nil { // else it is being stopped, or stands still
			p.tell(ctx, portList{began, now})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (p *portWatch) tell(ctx context.Context, now portList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return // others look by now
	}
	for l := range p.listeners {
		select {
		case <-l.lists:
		default:
		}
		l.lists <- now // only tell writes to it, so there is room
	}
}

// portNotices tells the client of a session which ports open and close while it is there. It begins when the session has
// run for a moment: most commands end before, and cost nothing more. What listened before the command began is not told.
type portNotices struct {
	watch   *portWatch
	first   int // process number from which on a process is no older than the command
	begin   *time.Timer
	joined  *portListener
	settled bool // the ports that are not news are known
	before  []sandbox.Port
}

func newPortNotices(watch *portWatch, first int) *portNotices {
	return &portNotices{watch: watch, first: first, begin: time.NewTimer(portsEvery / 2)}
}

// join begins to listen; it is due when begin fires.
func (n *portNotices) join() { n.joined = n.watch.join() }

// lists is nil before join.
func (n *portNotices) lists() <-chan portList {
	if n.joined == nil {
		return nil
	}
	return n.joined.lists
}

// news is what differs from the list before.
func (n *portNotices) news(now []sandbox.Port) []sprites.PortEvent {
	before := n.before
	if !n.settled {
		n.settled = true
		for _, p := range now {
			if p.PID < n.first {
				before = append(before, p)
			}
		}
	}
	n.before = now
	return portChanges(before, now)
}

func (n *portNotices) end() {
	n.begin.Stop()
	if n.joined != nil {
		n.watch.part(n.joined)
	}
}

// ports lists what the sprite listens on, without waking it.
func (s *sprite) ports(ctx context.Context) ([]sandbox.Port, error) {
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

// portChanges says how one list becomes another.
func portChanges(before, now []sandbox.Port) []sprites.PortEvent {
	return slices.Concat(portEvents("port_closed", without(before, now)), portEvents("port_opened", without(now, before)))
}

func without(all, minus []sandbox.Port) (rest []sandbox.Port) {
	for _, p := range all {
		if !slices.Contains(minus, p) {
			rest = append(rest, p)
		}
	}
	return rest
}

// portEvents names ports by addresses that the proxy can be told to connect to.
func portEvents(kind string, ports []sandbox.Port) []sprites.PortEvent {
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
