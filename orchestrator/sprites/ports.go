package sprites

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/coder/websocket"
)

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

// Ports lists what the sprite listens on.
func (c *Client) Ports(ctx context.Context, name string) ([]PortEvent, error) {
	var all []PortEvent
	err := c.WatchPorts(ctx, name, func(list []PortEvent) error { all = list; return errEnough }, nil)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return all, err
}

// WatchPorts calls first with what the sprite listens on, then each with every change, until one of them fails, ctx ends or
// the connection breaks. It never returns nil.
func (c *Client) WatchPorts(ctx context.Context, name string, first func([]PortEvent) error, each func(PortEvent) error) error {
	var ws *websocket.Conn
	err := c.retry(ctx, true, func() (err error) {
		ws, err = c.dialOnce(ctx, spritePath(name, "ports", "watch"))
		return err
	})
	if err != nil {
		return describe(err, "watch the ports of %s", name)
	}
	defer ws.CloseNow()
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return describe(c.broken(err), "watch the ports of %s", name)
		}
		var m struct {
			PortEvent
			Ports []PortEvent `json:"ports"`
		}
		if json.Unmarshal(data, &m) != nil {
			continue // of a kind that is not known
		}
		switch {
		case m.Type == "port_list":
			err = first(append([]PortEvent{}, m.Ports...))
		case each != nil && (m.Type == "port_opened" || m.Type == "port_closed"):
			err = each(m.PortEvent)
		}
		if err != nil {
			ws.Close(websocket.StatusNormalClosure, "")
			return err
		}
	}
}
