package sprites_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/sprites"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// slow takes its first piece of output only after a time, and counts all of it.
type slow struct {
	wait func()
	n    int64
}

func (s *slow) Write(p []byte) (int, error) {
	if s.n == 0 {
		s.wait()
	}
	s.n += int64(len(p))
	return len(p), nil
}

// zeros is an input of so many bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestPatience: a peer that cannot be heard, because somebody takes his time with what was said before, is no dead peer.
func TestPatience(t *testing.T) {
	f := newFar(t)
	f.begin(t)
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	const probe = 250 * time.Millisecond
	c := sprites.NewWith(f.man.URL, "", hc, sprites.Options{Probe: probe})
	pause := func() { time.Sleep(6 * probe) } // long enough to be given up by who is impatient

	t.Run("output is not taken", func(t *testing.T) {
		t.Parallel()
		out := &slow{wait: pause}
		code, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", "head -c 30000000 /dev/zero; exit 3"}, Stdout: out})
		if code != 3 || err != nil || out.n != 30000000 {
			t.Errorf("Exec = %d, %v with %d bytes, want 3 with 30000000", code, err, out.n)
		}
	})
	t.Run("input is not taken", func(t *testing.T) {
		t.Parallel()
		var out strings.Builder
		code, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", "sleep 1.5; wc -c"}, Stdin: zeros(60 << 20), Stdout: &out})
		if code != 0 || err != nil || strings.TrimSpace(out.String()) != "62914560" {
			t.Errorf("Exec = %d, %v with %q", code, err, out.String())
		}
	})
	t.Run("events are not taken", func(t *testing.T) {
		t.Parallel()
		w, err := c.Files().Watch(t.Context(), "s", []string{"/workspace"}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if e, err := w.Next(t.Context()); err != nil || e.Type != "subscribed" {
			t.Fatalf("Next = %+v, %v", e, err)
		}
		pause()
		f.sh(t, ": >/workspace/f")
		if e, err := w.Next(t.Context()); err != nil || e.Path != "/workspace/f" {
			t.Errorf("Next = %+v, %v", e, err)
		}
	})
	t.Run("ports are not taken", func(t *testing.T) {
		t.Parallel()
		enough := errors.New("enough")
		err := c.Ports().Watch(t.Context(), "s", func([]sprites.PortEvent) error { pause(); return enough }, nil)
		if !errors.Is(err, enough) {
			t.Errorf("WatchPorts = %v", err)
		}
	})
}

// TestServerThatPings: a server may ping while it does not take the input; that its pings are not answered then ends nothing.
func TestServerThatPings(t *testing.T) {
	t.Parallel()
	const size = 30 << 20
	got := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"session_info","session_id":"1","tty":false}`))
		for range 24 { // until the client's library has given up to answer, after 5 s
			ctx, cancel := context.WithTimeout(r.Context(), 300*time.Millisecond)
			_ = conn.Ping(ctx) // nobody reads the answer
			cancel()
		}
		total := 0
		for {
			_, message, err := conn.Read(r.Context())
			if err != nil || len(message) == 1 && message[0] == sprites.StreamEOF {
				break
			}
			total += len(message) - 1
		}
		got <- total
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"exit","exit_code":0}`))
		_ = conn.Write(r.Context(), websocket.MessageBinary, []byte{sprites.StreamExit, 0})
		conn.Close(websocket.StatusNormalClosure, "")
	}))
	defer server.Close()
	hc := &http.Client{Transport: &http.Transport{}}
	defer hc.CloseIdleConnections()
	code, err := sprites.New(server.URL, "", hc).Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"cat"}, Stdin: zeros(size)})
	if total := <-got; code != 0 || err != nil || total != size {
		t.Errorf("Exec = %d, %v with %d bytes of input taken, want 0 with %d", code, err, total, size)
	}
}

// TestDeadWatch: a server that is gone without closing its connection is noticed by who watches, too.
func TestDeadWatch(t *testing.T) {
	f := newFar(t)
	f.begin(t)
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	c := sprites.NewWith(f.man.URL, "", hc, sprites.Options{Probe: 20 * time.Millisecond})
	// The first words come through, and nothing else.
	mute := func(end string) {
		f.man.Do(Fault{On: socket(end), Down: func(m Frame, send func(Frame)) bool {
			if m.Op == OpHandshake || m.Op == OpText {
				send(m)
			}
			return true
		}})
	}
	for name, watch := range map[string]func(context.Context) error{
		"files": func(ctx context.Context) error {
			mute("/fs/watch")
			w, err := c.Files().Watch(ctx, "s", []string{"/workspace"}, false)
			if err != nil {
				return err
			}
			defer w.Close()
			for err == nil {
				_, err = w.Next(ctx)
			}
			return err
		},
		"ports": func(ctx context.Context) error {
			mute("/ports/watch")
			return c.Ports().Watch(ctx, "s", func([]sprites.PortEvent) error { return nil }, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var conn *sprites.ConnError
			if err := watch(t.Context()); !errors.As(err, &conn) {
				t.Errorf("= %v, want a ConnError", err)
			}
		})
	}
}
