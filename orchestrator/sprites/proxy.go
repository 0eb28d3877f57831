package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/sprites/socket"
)

// ProxyInit is the first message of a proxy socket.
type ProxyInit struct {
	Host      string `json:"host"` // of the sprite's own network: localhost, or an address of the sprite
	Port      int    `json:"port"`
	HalfClose bool   `json:"half_close,omitempty"` // the client knows {"type":"eof"}; an offer that servers may ignore
}

// ProxyAnswer is the server's answer to it.
type ProxyAnswer struct {
	Status    string `json:"status"` // connected
	Target    string `json:"target"`
	HalfClose bool   `json:"half_close,omitempty"` // so does the server
}

// ProxyNote is a later text message. Type "eof" ends one direction.
type ProxyNote struct {
	Type string `json:"type"`
}

// Dial opens a TCP connection to a port of the sprite, from inside it. The connection has CloseWrite. A port on which
// nothing listens is an error, and so is a server that answers otherwise.
func (c *Client) Dial(ctx context.Context, name, host string, port int) (net.Conn, error) {
	conn, err := c.dialProxy(ctx, name, ProxyInit{Host: host, Port: port, HalfClose: true})
	return conn, describeError(err, "connect to port %d of %s", port, name)
}

func (c *transport) dialProxy(ctx context.Context, name string, in ProxyInit) (net.Conn, error) {
	ws, err := c.dialExec(ctx, spritePath(name, "proxy"))
	if err != nil {
		return nil, err
	}
	answer, err := exchangeGreeting(ctx, ws, in)
	if err != nil {
		ws.CloseNow()
		var api *APIError
		if !errors.As(err, &api) && !errors.Is(err, errOdd) {
			err = c.connError(err)
		}
		return nil, err
	}
	return socket.NewConn(ws, answer.Target, answer.HalfClose), nil
}

func exchangeGreeting(ctx context.Context, ws *websocket.Conn, in ProxyInit) (answer ProxyAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	data, err := json.Marshal(in)
	if err == nil {
		err = ws.Write(ctx, websocket.MessageText, data)
	}
	if err != nil {
		return answer, err
	}
	typ, data, err := ws.Read(ctx)
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed) && closed.Code == websocket.StatusInternalError:
		return answer, &APIError{Status: 502, Message: "nothing listens there: " + closed.Reason}
	case errors.As(err, &closed):
		return answer, &APIError{Status: 400, Message: closed.Reason}
	case err != nil:
		return answer, err
	case typ != websocket.MessageText || json.Unmarshal(data, &answer) != nil || answer.Status != "connected":
		return answer, fmt.Errorf("the proxy answers %.200q: %w", data, errOdd)
	}
	return answer, nil
}
