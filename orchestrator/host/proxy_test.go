package host_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"golang.org/x/sync/errgroup"
)

// listener starts a service that listens on a free port, and returns the port. do handles $c, a connection.
func (h hosted) listener(name, do string) int {
	h.Helper()
	script := `$|=1; $SIG{CHLD}="IGNORE"; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>500,LocalAddr=>"127.0.0.1:0") or die; print $s->sockport,"\n";` +
		`while(1){ my $c=$s->accept or next; next if fork; ` + do + `; exit }`
	var port int
	h.watch("stdout", func(f sprites.ServiceCall) error {
		seen := f.OnEvent
		f.OnEvent = func(e sprites.ServiceEvent) error {
			if e.Type == "stdout" {
				fmt.Sscan(e.Data, &port)
			}
			return seen(e)
		}
		return h.client.Services().Put(h.Context(), h.name, sprites.Service{Name: name, Cmd: "perl", Args: []string{"-e", script}}, f)
	})
	return port
}

const echo = `my $b; while(sysread($c,$b,65536)){ my $o=0; while($o<length $b){ $o+=syswrite($c,$b,length($b)-$o,$o)//die } }`

func TestProxyCarriesMuchBothWays(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	port := h.listener("echo", echo)
	const size = 100 << 20
	conn, err := h.client.Dial(t.Context(), "box", "localhost", port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent, got := sha256.New(), sha256.New()
	var both errgroup.Group
	both.Go(func() error {
		if _, err := io.CopyN(io.MultiWriter(conn, sent), rand.Reader, size); err != nil {
			return err
		}
		return conn.(interface{ CloseWrite() error }).CloseWrite()
	})
	n, err := io.Copy(got, conn)
	if err := errors.Join(err, both.Wait()); err != nil || n != size || string(sent.Sum(nil)) != string(got.Sum(nil)) {
		t.Errorf("%d of %d bytes came back, equal=%t: %v", n, size, string(sent.Sum(nil)) == string(got.Sum(nil)), err)
	}
}

func TestProxyHalfCloses(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	// It ends its own direction at once, counts what it still gets, and says how much it was in its log.
	port := h.listener("count", `shutdown($c,1); my $n=0; my $b; while(my $r=sysread($c,$b,65536)){ $n+=$r } print "got $n\n"`)
	conn, err := h.client.Dial(t.Context(), "box", "localhost", port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); err != nil || len(b) > 0 {
		t.Fatalf("read %q, %v", b, err)
	}
	h.logs("count", "got 300000", func() {
		if _, err := conn.Write(make([]byte, 300000)); err != nil {
			t.Error(err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
	})
}

func TestProxyManyAtOnce(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	port := h.listener("echo", echo)
	var all errgroup.Group
	for i := range 100 {
		all.Go(func() error {
			conn, err := h.client.Dial(t.Context(), "box", "127.0.0.1", port)
			if err != nil {
				return err
			}
			defer conn.Close()
			want := strings.Repeat(fmt.Sprint(i, " "), 1000)
			if _, err := io.WriteString(conn, want); err != nil {
				return err
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
				return fmt.Errorf("%d: another's bytes, or %w", i, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}

// The wire, as other clients speak it.
func TestProxyWire(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	port := h.listener("echo", echo)
	open := func(first string, typ websocket.MessageType) *websocket.Conn {
		ws, _, err := websocket.Dial(t.Context(), h.base+"/v1/sprites/box/proxy", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer secret"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.CloseNow() })
		if err := ws.Write(t.Context(), typ, []byte(first)); err != nil {
			t.Fatal(err)
		}
		return ws
	}
	for first, want := range map[string]websocket.StatusCode{
		"nonsense":                            websocket.StatusUnsupportedData,
		`{"host":"localhost"}`:                websocket.StatusUnsupportedData,
		`{"host":"localhost","port":70000}`:   websocket.StatusUnsupportedData,
		strings.Repeat(" ", 8<<10):            websocket.StatusUnsupportedData,
		`{"host":"localhost","port":1}`:       websocket.StatusInternalError,
		`{"host":"example.com","port":80}`:    websocket.StatusInternalError,
		`{"host":"169.254.169.254","port":1}`: websocket.StatusInternalError,
	} {
		_, _, err := open(first, websocket.MessageText).Read(t.Context())
		if got := websocket.CloseStatus(err); got != want {
			t.Errorf("after %.40q: %v, want %v", first, err, want)
		}
	}
	ws := open(fmt.Sprintf(`{"host":"localhost","port":%d}`, port), websocket.MessageText)
	typ, data, err := ws.Read(t.Context())
	if want := fmt.Sprintf(`{"status":"connected","target":"127.0.0.1:%d"}`, port); err != nil || typ != websocket.MessageText || string(data) != want {
		t.Errorf("answer %q, %v, want %q", data, err, want)
	}
	if err := ws.Write(t.Context(), websocket.MessageBinary, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if typ, data, err := ws.Read(t.Context()); err != nil || typ != websocket.MessageBinary || string(data) != "hi" {
		t.Errorf("echo %q, %v", data, err)
	}
	once := h.listener("once", `syswrite($c,"bye")`)
	ws = open(fmt.Sprintf(`{"port":%d}`, once), websocket.MessageText)
	for range 2 {
		if _, data, err = ws.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := ws.Read(t.Context()); string(data) != "bye" || websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("%q, then %v", data, err)
	}
}

func TestPortsAreWatched(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	port := 0
	var events []string
	first := func(list []sprites.PortEvent) error {
		if len(list) != 0 {
			t.Errorf("at first %+v", list)
		}
		port = h.listener("echo", echo)
		return nil
	}
	err := h.client.Ports().Watch(ctx, "box", first, func(e sprites.PortEvent) error {
		events = append(events, e.Type)
		if e.Port != port || e.Address != "127.0.0.1" || e.PID < 1 {
			t.Errorf("event %+v, want port %d", e, port)
		}
		if e.Type == "port_closed" {
			return errSeen
		}
		return h.client.Services().Stop(ctx, "box", "echo", 0, sprites.ServiceCall{})
	})
	if !errors.Is(err, errSeen) || len(events) != 2 {
		t.Errorf("WatchPorts = %v, events %q", err, events)
	}
	if list, err := h.client.Ports().List(ctx, "box"); err != nil || len(list) != 0 {
		t.Errorf("Ports = %+v, %v", list, err)
	}
}
