package wire

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"
)

const (
	PingEvery   = 20 * time.Second // of clients that only listen
	MissedPings = 3                // in a row, and who answered before is gone
)

// NextMessage waits for a client's next message, also of one that is slow to read: its pings are then not answered, because
// they would have to wait for what it does not read. The library gives such an answer up after a while, which is no reason
// to give the client up.
func NextMessage(ctx context.Context, conn *websocket.Conn) (websocket.MessageType, io.Reader, error) {
	for {
		typ, message, err := conn.Reader(ctx)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return typ, message, err
		}
	}
}

// IgnoreMessages reads the client's messages until it leaves, so that its pings are answered.
func IgnoreMessages(ctx context.Context, conn *websocket.Conn) {
	for {
		_, message, err := NextMessage(ctx, conn)
		if err == nil {
			_, err = io.Copy(io.Discard, message)
		}
		if err != nil {
			return
		}
	}
}

// KeepAlive pings a client that only listens until ctx ends, and cuts its connection when it is not there any more. Some
// clients never answer pings, so that only one that has answered can be missed; of others the connection itself tells.
func KeepAlive(ctx context.Context, conn *websocket.Conn, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	answers := false
	for missed := 0; missed < MissedPings; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ping, cancel := context.WithTimeout(ctx, every)
		err := conn.Ping(ping)
		cancel()
		switch {
		case err == nil:
			answers, missed = true, 0
		case answers:
			missed++
		}
	}
	conn.CloseNow()
}
