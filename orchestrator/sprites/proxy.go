package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"
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

// drainWait is how long a connection stays open for what comes back after this side has ended its own direction, when the
// server cannot be told of the end alone: until nothing came for so long.
const drainWait = 5 * time.Second

// Dial opens a TCP connection to a port of the sprite, from inside it. The connection has CloseWrite. A port on which
// nothing listens is an error, and so is a server that answers otherwise.
func (c *Client) Dial(ctx context.Context, name, host string, port int) (net.Conn, error) {
	conn, err := c.dialProxy(ctx, name, ProxyInit{Host: host, Port: port, HalfClose: true})
	return conn, describe(err, "connect to port %d of %s", port, name)
}

func (c *Client) dialProxy(ctx context.Context, name string, in ProxyInit) (net.Conn, error) {
	ws, err := c.dial(ctx, spritePath(name, "proxy"))
	if err != nil {
		return nil, err
	}
	answer, err := greet(ctx, ws, in)
	if err != nil {
		ws.CloseNow()
		var api *APIError
		if !errors.As(err, &api) && !errors.Is(err, errOdd) {
			err = c.broken(err)
		}
		return nil, err
	}
	p := &proxyConn{ws: ws, target: answer.Target, half: answer.HalfClose}
	p.ctx, p.cancel = context.WithCancel(context.Background()) // until Close
	return p, nil
}

func greet(ctx context.Context, ws *websocket.Conn, in ProxyInit) (answer ProxyAnswer, err error) {
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

// proxyConn is a TCP connection carried by a socket. One goroutine may read and another write.
type proxyConn struct {
	ws     *websocket.Conn
	target string
	half   bool // both ends know {"type":"eof"}
	ctx    context.Context
	cancel context.CancelFunc

	rest  []byte // of the last message; of the reader alone
	ended error  // what every further read returns; of the reader alone

	mu     sync.Mutex // guards the fields below
	done   bool       // writing has ended
	cutoff *time.Timer
}

// Read implements [net.Conn]. The end is io.EOF only when the server said so.
func (p *proxyConn) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.ended != nil {
			return 0, p.ended
		}
		typ, data, err := readMessage(p.ctx, p.ws)
		switch status := websocket.CloseStatus(err); {
		case status == websocket.StatusNormalClosure || status == websocket.StatusGoingAway:
			p.ended = io.EOF
		case err != nil && p.ctx.Err() != nil:
			p.ended = net.ErrClosed
		case err != nil:
			p.ended = fmt.Errorf("read from the sprite: %w", err)
		case typ == websocket.MessageBinary:
			p.rest = data
			p.heard()
		default:
			var note ProxyNote
			if json.Unmarshal(data, &note) == nil && note.Type == "eof" {
				p.ended = io.EOF
			}
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Write implements [net.Conn].
func (p *proxyConn) Write(b []byte) (int, error) {
	for sent := 0; sent < len(b); {
		n := min(len(b)-sent, stdinChunk)
		if err := p.ws.Write(p.ctx, websocket.MessageBinary, b[sent:sent+n]); err != nil {
			return sent, fmt.Errorf("write to the sprite: %w", err)
		}
		sent += n
	}
	return len(b), nil
}

// CloseWrite ends this direction. A server that cannot be told ends the connection once nothing comes back any more.
func (p *proxyConn) CloseWrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	p.done = true
	if p.half {
		return p.ws.Write(p.ctx, websocket.MessageText, []byte(`{"type":"eof"}`))
	}
	p.cutoff = time.AfterFunc(drainWait, p.cancel)
	return nil
}

func (p *proxyConn) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutoff != nil {
		p.cutoff.Reset(drainWait)
	}
}

// Close implements [net.Conn].
func (p *proxyConn) Close() error {
	p.mu.Lock()
	if p.cutoff != nil {
		p.cutoff.Stop()
	}
	p.mu.Unlock()
	err := p.ws.Close(websocket.StatusNormalClosure, "")
	p.cancel()
	if websocket.CloseStatus(err) != -1 || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil // the other side was first
	}
	return err
}

type proxyAddr string

func (proxyAddr) Network() string  { return "sprite" }
func (a proxyAddr) String() string { return string(a) }

// LocalAddr implements [net.Conn].
func (p *proxyConn) LocalAddr() net.Addr { return proxyAddr("client") }

// RemoteAddr implements [net.Conn]: where the server says that it is connected to.
func (p *proxyConn) RemoteAddr() net.Addr { return proxyAddr(p.target) }

// SetDeadline implements [net.Conn]; there are no deadlines.
func (p *proxyConn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline implements [net.Conn]; there are no deadlines.
func (p *proxyConn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline implements [net.Conn]; there are no deadlines.
func (p *proxyConn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
