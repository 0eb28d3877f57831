package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/sprites/socket"
)

// Ports are the calls about ports; see [Client.Ports].
type Ports struct{ *transport }

// PortEvent says that a program in the sprite listens on a port, or has ceased to.
type PortEvent struct {
	Type    string `json:"type"` // port_opened | port_closed
	Port    int    `json:"port"`
	Address string `json:"address"` // to which Dial can connect
	PID     int    `json:"pid"`
}

// PortList is the first message of a socket that watches ports.
type PortList struct {
	Type  string      `json:"type"` // port_list
	Ports []PortEvent `json:"ports"`
}

// errEnough ends a watch from within.
var errEnough = errors.New("enough")

// List lists the ports that the sprite listens on.
func (c Ports) List(ctx context.Context, name string) ([]PortEvent, error) {
	var all []PortEvent
	err := c.Watch(ctx, name, func(list []PortEvent) error { all = list; return errEnough }, nil)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return all, err
}

// Watch calls first with the ports that the sprite listens on, then each with every change, until one of them fails, ctx ends
// or the connection breaks. It never returns nil.
func (c Ports) Watch(ctx context.Context, name string, first func([]PortEvent) error, each func(PortEvent) error) error {
	var ws *websocket.Conn
	err := c.retrySafely(ctx, true, func() (err error) {
		ws, err = c.dialOnce(ctx, spritePath(name, "ports", "watch"))
		return err
	})
	if err != nil {
		return describeError(err, "watch the ports of %s", name)
	}
	beat := socket.Pulse{Conn: ws, Every: c.o.Probe}
	beating, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { beat.Run(beating) })
	defer func() {
		cancel()
		ws.CloseNow()
		beats.Wait()
	}()
	for {
		_, data, err := socket.ReadMessage(ctx, ws)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return describeError(c.connError(err), "watch the ports of %s", name)
		}
		beat.Heard()
		var m struct {
			PortEvent
			Ports []PortEvent `json:"ports"`
		}
		if json.Unmarshal(data, &m) != nil {
			continue // of a kind that is not known
		}
		err = beat.During(func() error {
			switch {
			case m.Type == "port_list":
				return first(append([]PortEvent{}, m.Ports...))
			case each != nil && (m.Type == "port_opened" || m.Type == "port_closed"):
				return each(m.PortEvent)
			}
			return nil
		})
		if err != nil {
			ws.Close(websocket.StatusNormalClosure, "")
			return err
		}
	}
}
