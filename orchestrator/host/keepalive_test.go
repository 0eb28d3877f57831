package host

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// dialSocket opens a socket of sprite s.
func (w *world) dialSocket(path string, query url.Values, o *websocket.DialOptions) *websocket.Conn {
	w.Helper()
	conn, _, err := websocket.Dial(w.Context(), w.server+"/v1/sprites/s"+path+"?"+query.Encode(), o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(-1)
	return conn
}

// sulk pings and does not read, until the library has given up twice, after 5 s, to answer.
func (w *world) sulk(conn *websocket.Conn) {
	w.Helper()
	for range 24 {
		ctx, cancel := context.WithTimeout(w.Context(), 300*time.Millisecond)
		if conn.Ping(ctx) == nil {
			w.Error("a ping was answered, although nobody has read the answer")
		}
		cancel()
	}
}

// A client that pings and is slow to read keeps its command, whose output it gets whole, and its connections: the library would
// rather give it up than have an answer wait for what it does not read.
func TestSlowReaderPings(t *testing.T) {
	t.Parallel()
	const size = 30_000_000
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop()}, func(string) {})
		w.sprite("s")
		conn := w.dialSocket("/exec", url.Values{"cmd": {"sh", "-c", "head -c 30000000 /dev/zero; exit 3"}}, nil)
		w.sulk(conn)
		total, code := 0, -1
		for {
			kind, message, err := conn.Read(t.Context())
			if err != nil {
				if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
					t.Errorf("the socket ends with %v", err)
				}
				break
			}
			switch {
			case kind == websocket.MessageBinary && message[0] == sprites.StreamStdout:
				total += len(message) - 1
			case kind == websocket.MessageBinary && message[0] == sprites.StreamExit:
				code = int(message[1])
			}
		}
		if total != size || code != 3 {
			t.Errorf("got %d bytes and exit %d, want %d and 3", total, code, size)
		}
	})
	t.Run("connection", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("perl"); err != nil {
			t.Skip(err)
		}
		w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop()}, func(string) {})
		w.sprite("s")
		const server = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1:8182",ReuseAddr=>1) or die; print "up\n"; my $c=$s->accept; print $c ("x" x 30000000); close $c`
		w.serve("sender", "perl", "-e", server)
		conn := w.dialSocket("/proxy", nil, nil)
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"port":8182}`)); err != nil {
			t.Fatal(err)
		}
		w.sulk(conn)
		total := 0
		for {
			kind, message, err := conn.Read(t.Context())
			if err != nil {
				if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
					t.Errorf("the socket ends with %v", err)
				}
				break
			}
			if kind == websocket.MessageBinary {
				total += len(message)
			}
		}
		if total != size {
			t.Errorf("got %d bytes, want %d", total, size)
		}
	})
}

// Those who only listen are asked whether they are there. Who has answered and ceases to is gone; who never answers is not,
// because some clients never do.
func TestListenersAreAsked(t *testing.T) {
	w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop()}, func(string) {})
	w.host.core.PingEvery = 50 * time.Millisecond
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	const enough = 3 * wire.MissedPings
	for _, path := range []string{"/fs/watch", "/ports/watch"} {
		listen := func(answer func(n int) bool) (*websocket.Conn, <-chan struct{}) {
			asked, n := make(chan struct{}), 0
			return w.dialSocket(path, nil, &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool {
				if n++; n == enough {
					close(asked)
				}
				return answer(n)
			}}), asked
		}
		t.Run(path+", silent at last", func(t *testing.T) {
			conn, _ := listen(func(n int) bool { return n <= enough }) // one of these answers is in time, however busy the machine
			for {
				_, _, err := conn.Read(t.Context())
				if err == nil {
					continue
				}
				// The host may cut it while it is read, or while a ping is answered late.
				cut := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
				if websocket.CloseStatus(err) != -1 || !cut {
					t.Errorf("the socket ends with %v, want it cut", err)
				}
				break
			}
		})
		t.Run(path+", silent always", func(t *testing.T) {
			conn, asked := listen(func(int) bool { return false })
			ended := make(chan error, 1)
			go func() {
				for {
					if _, _, err := conn.Read(t.Context()); err != nil {
						ended <- err
						return
					}
				}
			}()
			select {
			case <-asked:
			case err := <-ended:
				t.Errorf("the socket ended: %v", err)
			}
			conn.CloseNow()
		})
	}
}

// Who watches the ports of a sprite is told when there is no sprite any more.
func TestPortsOfDeleted(t *testing.T) {
	w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop()}, func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	conn := w.dialSocket("/ports/watch", nil, nil)
	_, list, err := conn.Read(t.Context())
	if err != nil || !json.Valid(list) {
		t.Fatal(string(list), err)
	}
	if err := w.client.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the socket ends with %v, want 1001", err)
	}
	if res, err := http.Get(w.server + "/v1/sprites/s"); err != nil || res.Body.Close() != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("the deleted sprite is answered with %v, %v", res, err)
	}
}
