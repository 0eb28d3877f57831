// Package socket keeps WebSockets of the Sprites API alive, and makes a [net.Conn] of those that carry one. [Pulse] notices an
// end that is gone without a word; it never takes a busy one for it.
package socket

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Pulse finds out whether the other end of a socket is still there, by pings. An end that is busy is not taken for one
// that is gone: data that wait for a reader here, or for a process there, keep both from being heard for as long as they wait.
type Pulse struct {
	Conn  *websocket.Conn
	Every time.Duration // between pings
	stuck atomic.Int32  // above 0 while no answer could be heard
	heard atomic.Bool   // since the last ping
}

// ReadMessage reads the next message, also while a message that is being sent waits for the other end to take it: pings are then not
// answered. The library gives such an answer up after a while, which is no reason to give the connection up.
func ReadMessage(ctx context.Context, conn *websocket.Conn) (websocket.MessageType, []byte, error) {
	for {
		kind, data, err := conn.Read(ctx)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return kind, data, err
		}
	}
}

// missedPings is how many intervals in a row the other end may be silent.
const missedPings = 3

// Heard notes that something came from the other end.
func (p *Pulse) Heard() { p.heard.Store(true) }

// Pause keeps a silent end from being taken for one that is gone, until Resume. Calls may nest.
func (p *Pulse) Pause() { p.stuck.Add(1) }

// Resume ends Pause.
func (p *Pulse) Resume() { p.stuck.Add(-1) }

// During calls do, which may take long and keep answers from being heard.
func (p *Pulse) During(do func() error) error {
	p.stuck.Add(1)
	defer p.stuck.Add(-1)
	return do()
}

// Run pings until ctx ends, and cuts the connection when the other end does not answer. A reader must be at work.
func (p *Pulse) Run(ctx context.Context) {
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	asked, answer := false, make(chan error, 1)
	defer func() {
		if asked {
			<-answer
		}
	}()
	for missed := 0; missed < missedPings; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if asked {
			missed++
			select {
			case err := <-answer:
				if asked = false; errors.Is(err, net.ErrClosed) {
					return
				} else if err == nil {
					missed = 0
				}
			default:
			}
		}
		if heard := p.heard.Swap(false); heard || p.stuck.Load() > 0 {
			missed = 0
		}
		if !asked {
			asked = true
			go func() { answer <- p.Conn.Ping(ctx) }() // awaited above; the library gives up by itself a ping that cannot be sent
		}
	}
	p.Conn.CloseNow()
}
