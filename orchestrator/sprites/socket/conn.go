package socket

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

// drainWait is how long a connection stays open for messages that come back after this side has ended its own direction, when the
// server cannot be told of the end alone: until nothing came for so long.
const drainWait = 5 * time.Second

// writeChunk bounds one message of a Conn.
const writeChunk = 32 << 10

// Conn is a TCP connection carried by a socket. One goroutine may read and another write.
type Conn struct {
	ws     *websocket.Conn
	target string
	half   bool // both ends know {"type":"eof"}
	ctx    context.Context
	cancel context.CancelFunc

	rest  []byte // of the last message; of the reader alone
	ended error  // the error of every further read; of the reader alone

	mu     sync.Mutex // guards the fields below
	done   bool       // writing has ended
	cutoff *time.Timer
}

// Read implements [net.Conn]. The end is io.EOF only when the server said so.
func (p *Conn) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.ended != nil {
			return 0, p.ended
		}
		typ, data, err := ReadMessage(p.ctx, p.ws)
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
			var note struct{ Type string }
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
func (p *Conn) Write(b []byte) (int, error) {
	for sent := 0; sent < len(b); {
		n := min(len(b)-sent, writeChunk)
		if err := p.ws.Write(p.ctx, websocket.MessageBinary, b[sent:sent+n]); err != nil {
			return sent, fmt.Errorf("write to the sprite: %w", err)
		}
		sent += n
	}
	return len(b), nil
}

// CloseWrite ends this direction. A server that cannot be told ends the connection once nothing comes back any more.
func (p *Conn) CloseWrite() error {
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

func (p *Conn) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutoff != nil {
		p.cutoff.Reset(drainWait)
	}
}

// Close implements [net.Conn].
func (p *Conn) Close() error {
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

type addr string

func (addr) Network() string  { return "sprite" }
func (a addr) String() string { return string(a) }

// LocalAddr implements [net.Conn].
func (p *Conn) LocalAddr() net.Addr { return addr("client") }

// RemoteAddr implements [net.Conn]: where the server says that it is connected to.
func (p *Conn) RemoteAddr() net.Addr { return addr(p.target) }

// SetDeadline implements [net.Conn]; there are no deadlines.
func (p *Conn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline implements [net.Conn]; there are no deadlines.
func (p *Conn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline implements [net.Conn]; there are no deadlines.
func (p *Conn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// NewConn returns the connection that ws carries. target is the address that the server has connected to; with half, both ends
// may end one direction alone.
func NewConn(ws *websocket.Conn, target string, half bool) *Conn {
	c := &Conn{ws: ws, target: target, half: half}
	c.ctx, c.cancel = context.WithCancel(context.Background()) // until Close
	return c
}
