package host

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// watchPorts tells a client which ports the sprite listens on, and then each change, as long as there is the sprite. It wakes
// the sprite once, and does not keep it awake: of a sandbox that has ended, all ports are closed.
func (a *reachAPI) watchPorts(w http.ResponseWriter, r *http.Request) error {
	if err := checkHandshake(r); err != nil {
		return err
	}
	s, leave, err := a.reach(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	before, err := s.ports(r.Context())
	looked := time.Now()
	leave()
	if err != nil {
		return err
	}
	conn, err := accept(w, r)
	if err != nil {
		return nil // accept has answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(a.ctx)
	var helpers sync.WaitGroup
	defer func() {
		cancel()
		conn.CloseNow()
		helpers.Wait()
	}()
	helpers.Go(func() {
		defer cancel()
		ignoreMessages(ctx, conn)
	})
	helpers.Go(func() { a.keepAlive(ctx, conn) })
	if !sendControl(ctx, conn, sprites.PortList{Type: "port_list", Ports: portEvents("port_opened", before)}) {
		return nil
	}
	joined := s.listening.join()
	defer s.listening.part(joined)
	for {
		select {
		case <-s.exists.Done():
			conn.Close(websocket.StatusGoingAway, "the sprite was deleted, or its host ends")
			return nil
		case <-ctx.Done():
			return nil
		case now := <-joined.lists:
			if now.began.Before(looked) {
				continue // older than the list that was sent
			}
			for _, e := range portChanges(before, now.ports) {
				if !sendControl(ctx, conn, e) {
					return nil
				}
			}
			before = now.ports
		}
	}
}

// ports lists what the sprite listens on, without waking it.
func (s *sprite) ports(ctx context.Context) ([]sandbox.Port, error) {
	s.mu.Lock()
	box, frozen := s.box, s.life.thaw != nil
	s.mu.Unlock()
	if box == nil || ended(box) {
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
