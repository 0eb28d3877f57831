package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Stats counts the traffic of a gateway.
type Stats struct {
	Connections int64 `json:"connections"` // that were allowed
	Sent        int64 `json:"sent"`        // bytes that left the sprite
	Received    int64 `json:"received"`
}

type counters struct{ connections, sent, received atomic.Int64 }

// Stats counts from the gateway's start. Bytes of open connections are counted within seconds.
func (g *Gateway) Stats() Stats {
	return Stats{g.stats.connections.Load(), g.stats.sent.Load(), g.stats.received.Load()}
}

// ticks is into how many parts the time is cut after which an idle connection ends.
const ticks = 16

// relayBoth copies both ways until both ends are through, one fails, nothing moves for too long, or ctx ends. Between TCP
// connections the kernel does the copying, and holds back a sender whose receiver is slow.
func (g *Gateway) relayBoth(ctx context.Context, near, far net.Conn) {
	stop := context.AfterFunc(ctx, func() {
		resetConn(near)
		resetConn(far)
	})
	defer stop()
	var moved atomic.Int64 // when something last did, in nanoseconds
	moved.Store(time.Now().UnixNano())
	var both sync.WaitGroup
	both.Go(func() { g.copyDirection(far, near, &moved, &g.stats.sent) })
	both.Go(func() { g.copyDirection(near, far, &moved, &g.stats.received) })
	both.Wait()
}

// copyDirection moves one direction. A clean end is passed on as such; any other ends both directions.
func (g *Gateway) copyDirection(to, from net.Conn, moved, count *atomic.Int64) {
	for {
		if from.SetReadDeadline(time.Now().Add(g.cfg.Idle/ticks)) != nil {
			break
		}
		n, err := io.Copy(to, from)
		count.Add(n)
		if n > 0 {
			moved.Store(time.Now().UnixNano())
		}
		if err == nil {
			if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
				return
			}
			break
		}
		idle := time.Since(time.Unix(0, moved.Load()))
		if !errors.Is(err, os.ErrDeadlineExceeded) || idle > g.cfg.Idle {
			break
		}
	}
	resetConn(to)
	resetConn(from)
}
