package host

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

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
	helpers.Go(func() { keepAlive(ctx, conn, a.pingEvery) })
	if !sendControl(ctx, conn, sprites.PortList{Type: "port_list", Ports: portEvents("port_opened", before)}) {
		return nil
	}
	joined := s.portWatch().join()
	defer s.portWatch().part(joined)
	for {
		select {
		case <-s.gone():
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
