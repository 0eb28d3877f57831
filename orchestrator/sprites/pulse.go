package sprites

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// pulse finds out whether the other end of a socket is still there, by pings. An end that is busy is not taken for one
// that is gone: what waits for a reader here, or for a process there, keeps both from being heard for as long as it waits.
type pulse struct {
	conn  *websocket.Conn
	every time.Duration
	stuck atomic.Int32 // above 0 while no answer could be heard
	heard atomic.Bool  // since the last ping
}

// readMessage reads the next message, also while what is being sent waits for the other end to take it: pings are then not
// answered. The library gives such an answer up after a while, which is no reason to give the connection up.
func readMessage(ctx context.Context, conn *websocket.Conn) (websocket.MessageType, []byte, error) {
	for {
		kind, data, err := conn.Read(ctx)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return kind, data, err
		}
	}
}

// missedPings is for how many intervals in a row the other end may say nothing at all.
const missedPings = 3

// during does what may take its time and keep answers from being heard.
func (p *pulse) during(do func() error) error {
	p.stuck.Add(1)
	defer p.stuck.Add(-1)
	return do()
}

// run pings until ctx ends, and cuts the connection when nobody is there any more. Somebody must read it.
func (p *pulse) run(ctx context.Context) {
	tick := time.NewTicker(p.every)
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
			go func() { answer <- p.conn.Ping(ctx) }() // awaited above; what cannot be sent the library gives up by itself
		}
	}
	p.conn.CloseNow()
}
