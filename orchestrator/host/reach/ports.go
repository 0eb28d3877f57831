package reach

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// WatchPorts tells a client which ports the sprite listens on, and then each change, as long as there is the sprite. It wakes
// the sprite once, and does not keep it awake: of a sandbox that has ended, all ports are closed.
func (a *API) WatchPorts(w http.ResponseWriter, r *http.Request) error {
	if err := wire.CheckHandshake(r); err != nil {
		return err
	}
	s, leave, err := a.reachSprite(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	before, err := s.Ports(r.Context())
	looked := time.Now()
	leave()
	if err != nil {
		return err
	}
	conn, err := wire.AcceptSocket(w, r)
	if err != nil {
		return nil // accept has answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(a.Context)
	var helpers sync.WaitGroup
	defer func() {
		cancel()
		conn.CloseNow()
		helpers.Wait()
	}()
	helpers.Go(func() {
		defer cancel()
		wire.IgnoreMessages(ctx, conn)
	})
	helpers.Go(func() { wire.KeepAlive(ctx, conn, a.PingEvery) })
	if !wire.SendControl(ctx, conn, sprites.PortList{Type: "port_list", Ports: fleet.PortEvents("port_opened", before)}) {
		return nil
	}
	joined := s.PortWatch().Join()
	defer s.PortWatch().Part(joined)
	for {
		select {
		case <-s.Gone():
			conn.Close(websocket.StatusGoingAway, "the sprite was deleted, or its host ends")
			return nil
		case <-ctx.Done():
			return nil
		case now := <-joined.Lists:
			if now.Began.Before(looked) {
				continue // older than the list that was sent
			}
			for _, e := range fleet.PortChanges(before, now.Ports) {
				if !wire.SendControl(ctx, conn, e) {
					return nil
				}
			}
			before = now.Ports
		}
	}
}
