package sprites_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// TestThroughProxy: all that the client does works through an HTTP proxy, sockets included: tunnelled by CONNECT where the
// API is spoken over TLS, as is. A proxy that carries a tunnel never sees the token.
func TestThroughProxy(t *testing.T) {
	const token = "org/id/canary-token"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Token: token, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, serve := range map[string]func(http.Handler) *httptest.Server{"tls": httptest.NewTLSServer, "plain": httptest.NewServer} {
		t.Run(name, func(t *testing.T) {
			server := serve(host.Handler())
			defer server.Close()
			p := newProxy(t)
			transport := server.Client().Transport.(*http.Transport).Clone()
			transport.Proxy = http.ProxyURL(p.url)
			defer transport.CloseIdleConnections()
			c := sprites.New(server.URL, token, &http.Client{Transport: transport})
			sprite := "through-" + name
			if _, err := c.Create(t.Context(), sprites.Create{Name: sprite}); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			code, err := c.Exec(t.Context(), sprite, sprites.Exec{
				Cmd: []string{"sh", "-c", "cat; exit 3"}, Stdin: strings.NewReader("to and fro"), Stdout: &out,
			})
			if code != 3 || err != nil || out.String() != "to and fro" {
				t.Errorf("exec = %d, %v, %q", code, err, out.String())
			}
			if _, err := c.Checkpoint(t.Context(), sprite, ""); err != nil {
				t.Error(err)
			}
			if err := c.Delete(t.Context(), sprite); err != nil {
				t.Error(err)
			}
			seen := p.seen()
			if !strings.Contains(seen, server.Listener.Addr().String()) {
				t.Errorf("the proxy saw %q: the client went past it", seen)
			}
			if name == "tls" && strings.Contains(seen, "canary") {
				t.Errorf("the proxy saw the token: %s", seen)
			}
		})
	}
}

// proxy is an ordinary HTTP proxy that remembers what it could read.
type proxy struct {
	url     *url.URL
	forward httputil.ReverseProxy
	tunnels sync.WaitGroup

	mu  sync.Mutex
	log strings.Builder // guarded by mu
}

func newProxy(t *testing.T) *proxy {
	p := &proxy{forward: httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, FlushInterval: -1}}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		server.CloseClientConnections()
		p.tunnels.Wait()
		server.Close()
	})
	p.url, _ = url.Parse(server.URL) // httptest made it
	return p
}

func (p *proxy) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fmt.Fprintln(&p.log, r.Method, r.RequestURI, r.Header)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		p.forward.ServeHTTP(w, r)
		return
	}
	far, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		far.Close()
		return
	}
	io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
	p.tunnels.Go(func() { io.Copy(far, near); far.Close() })
	p.tunnels.Go(func() { io.Copy(near, far); near.Close() })
}
