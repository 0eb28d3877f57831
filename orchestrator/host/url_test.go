package host_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// urlHost opens a host that serves URLs.
func urlHost(t *testing.T, dir string) *host.Host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(core.Config{
		Dir: dir, Self: self, Token: "secret", URLs: "127.0.0.1:0", Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// browser asks for a URL as a browser would: names below localhost are this machine.
type browser struct {
	t      *testing.T
	client *http.Client
}

func newBrowser(t *testing.T) browser {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(addr)
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return browser{t, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (b browser) get(target string, header ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, target, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Add(header[i], header[i+1])
		}
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, string(body)
}

// mirror answers every request with its head.
const mirror = `my $r=""; while(my $l=<$c>){ last if $l=~/^\r?$/; $r.=$l } print $c "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ".length($r)."\r\n\r\n".$r`

// web starts a service that serves the sprite's URL.
func (h hosted) web(do string) {
	h.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	script := fmt.Sprintf(`$SIG{CHLD}="IGNORE"; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>50,ReuseAddr=>1,LocalAddr=>"127.0.0.1:%d") or die "$!"; while(1){ my $c=$s->accept or next; next if fork; %s; exit }`, port, do)
	if err := h.client.Services().Put(h.Context(), h.name, sprites.Service{Name: "web", Cmd: "perl", Args: []string{"-e", script}, HTTPPort: port}, sprites.ServiceCall{}); err != nil {
		h.Fatal(err)
	}
}

func (h hosted) url() string {
	h.Helper()
	s, err := h.client.Get(h.Context(), h.name)
	if err != nil {
		h.Fatal(err)
	}
	return s.URL
}

func TestURL(t *testing.T) {
	dir := t.TempDir()
	first := urlHost(t, dir)
	h, b := newHosted(t, first), newBrowser(t)
	h.web(mirror)
	at := h.url()
	if !strings.HasPrefix(at, "http://box.localhost:") {
		t.Fatalf("url = %q", at)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/")

	res, body := b.get(at + "path?q=1")
	if res.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "lattice sprite url box --login") {
		t.Errorf("without a token: %d %s", res.StatusCode, body)
	}
	res, body = b.get(at+"path?q=1", "Authorization", "Bearer secret", "Connection", "X-Hop", "X-Hop", "1", "X-Forwarded-For", "6.6.6.6", "Cookie", "a=1; lattice_sprite=x; b=\"2\"")
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(body, "GET /path?q=1 HTTP/1.1\r\nHost: "+host+"\r\n") {
		t.Errorf("with the host's token: %d %q", res.StatusCode, body)
	}
	for _, leaked := range []string{"secret", "X-Hop", "6.6.6.6", "lattice_sprite"} {
		if strings.Contains(body, leaked) {
			t.Errorf("the sprite is told %q: %q", leaked, body)
		}
	}
	if !strings.Contains(body, "Cookie: a=1; b=\"2\"\r\n") {
		t.Errorf("the sprite's own cookies changed: %q", body)
	}

	access, err := h.client.URLs().Invite(t.Context(), "box", false)
	if err != nil {
		t.Fatal(err)
	}
	if res, body := b.get(at, "Authorization", "Bearer "+access.Token); res.StatusCode != http.StatusOK || strings.Contains(body, access.Token) {
		t.Errorf("with the sprite's token: %d %q", res.StatusCode, body)
	}
	res, _ = b.get(access.Login + "&next=1")
	cookie := res.Header.Get("Set-Cookie")
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/?next=1" || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") || strings.Contains(cookie, "Domain") {
		t.Errorf("sign-in: %d %v", res.StatusCode, res.Header)
	}
	if res, _ := b.get(access.Login); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a used sign-in: %d", res.StatusCode)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"the sprite's own page":       {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://" + host}, http.StatusOK},
		"a person":                    {[]string{"Sec-Fetch-Site", "none"}, http.StatusOK},
		"a link of another page":      {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, http.StatusOK},
		"an image in another page":    {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, http.StatusUnauthorized},
		"a frame in another page":     {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, http.StatusUnauthorized},
		"another sprite's page":       {[]string{"Sec-Fetch-Site", "same-site", "Origin", "http://evil.localhost:1"}, http.StatusUnauthorized},
		"another page in old clothes": {[]string{"Origin", "https://evil.example"}, http.StatusUnauthorized},
	} {
		if res, _ := b.get(at, append(c.header, "Cookie", cookie)...); res.StatusCode != c.want {
			t.Errorf("the cookie from %s: %d, want %d", name, res.StatusCode, c.want)
		}
	}

	// A cookie and a token are for one sprite.
	if _, err := h.client.Create(t.Context(), sprites.Create{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(at, "box.", "other.", 1)
	for _, proof := range [][]string{{"Cookie", cookie}, {"Authorization", "Bearer " + access.Token}} {
		if res, _ := b.get(other, proof...); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s opens another sprite: %d", proof[0], res.StatusCode)
		}
	}
	res, body = b.get(other, "Authorization", "Bearer secret")
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "Nothing listens on port 8080 of sprite other") {
		t.Errorf("nothing listens: %d %s", res.StatusCode, body)
	}

	// Names that are not a sprite's reach nothing, and the API is not there.
	for _, name := range []string{"localhost", "127.0.0.1", "evil.example", "box.evil.example", "a.box.localhost", "box.localhost.evil.example", ".localhost", "-.localhost", "BOX%2e.localhost"} {
		if res, body := b.get(at+"v1/sprites", "Host", name, "Authorization", "Bearer secret"); res.StatusCode != http.StatusMisdirectedRequest && res.StatusCode != http.StatusBadRequest {
			t.Errorf("Host %s: %d %s", name, res.StatusCode, body)
		}
	}
	if res, _ := b.get(at, "Host", "none.localhost", "Authorization", "Bearer secret"); res.StatusCode != http.StatusNotFound {
		t.Errorf("a sprite that is not there: %d", res.StatusCode)
	}
	if res, body := b.get(at+"v1/sprites", "Authorization", "Bearer secret"); !strings.HasPrefix(body, "GET /v1/sprites HTTP/1.1\r\n") {
		t.Errorf("the API's path at a sprite's URL: %d %s", res.StatusCode, body)
	}

	// Public needs no proof. The next host has the same URLs, and wakes the sprite and its service.
	if _, err := h.client.URLs().SetAuth(t.Context(), "box", "public"); err != nil {
		t.Fatal(err)
	}
	if res, _ := b.get(at, "Sec-Fetch-Site", "cross-site"); res.StatusCode != http.StatusOK {
		t.Errorf("public: %d", res.StatusCode)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	urlHost(t, dir)
	if res, body := b.get(at); res.StatusCode != http.StatusOK {
		t.Errorf("asleep: %d %s", res.StatusCode, body)
	}
	if res, _ := b.get(at, "Cookie", cookie); res.StatusCode != http.StatusOK {
		t.Errorf("the cookie on the next host: %d", res.StatusCode)
	}
}

// TestURLByAddress asks with a client that looks no names up: the address is the sprite's own, stays so on the next host, and
// leads to nothing else.
func TestURLByAddress(t *testing.T) {
	dir := t.TempDir()
	first := urlHost(t, dir)
	h := newHosted(t, first)
	h.web(mirror)
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	b := browser{t, plain}
	access, err := h.client.URLs().Invite(t.Context(), "box", true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(access.URL, "http://127.") || strings.HasPrefix(access.URL, "http://127.0.") {
		t.Fatalf("url = %q", access.URL)
	}
	if again, err := h.client.URLs().Invite(t.Context(), "box", true); err != nil || again.URL != access.URL {
		t.Errorf("asked again: %q, %v, want %q", again.URL, err, access.URL)
	}
	if res, _ := b.get(access.URL); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", res.StatusCode)
	}
	if res, body := b.get(access.URL+"x", "Authorization", "Bearer "+access.Token); res.StatusCode != http.StatusOK || !strings.HasPrefix(body, "GET /x ") {
		t.Errorf("with the sprite's token: %d %q", res.StatusCode, body)
	}
	if res, _ := b.get(access.Login); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" {
		t.Errorf("sign-in: %d %v", res.StatusCode, res.Header)
	}
	for _, name := range []string{"127.0.0.1", "evil.example", "127.64.0.1"} {
		if res, body := b.get(access.URL, "Host", name, "Authorization", "Bearer secret"); res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("Host %s: %d %s", name, res.StatusCode, body)
		}
	}
	if _, err := h.client.Create(t.Context(), sprites.Create{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	other, err := h.client.URLs().Invite(t.Context(), "other", true)
	if err != nil || other.URL == access.URL {
		t.Errorf("another sprite: %q, %v", other.URL, err)
	}
	if res, _ := b.get(other.URL, "Authorization", "Bearer "+access.Token); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token opens another sprite: %d", res.StatusCode)
	}
	if err := h.client.Delete(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if res, _ := b.get(other.URL, "Authorization", "Bearer secret"); res.StatusCode != http.StatusNotFound {
		t.Errorf("a sprite that is gone: %d", res.StatusCode)
	}
	if _, err := h.client.URLs().SetAuth(t.Context(), "box", "public"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	urlHost(t, dir)
	if res, body := b.get(access.URL); res.StatusCode != http.StatusOK {
		t.Errorf("on the next host: %d %s", res.StatusCode, body)
	}
}

// The address of a sprite that is gone is free again when the next sprite gets one, and nothing listens there.
func TestAddressesOfGoneSprites(t *testing.T) {
	client, _ := serve(t, urlHost(t, t.TempDir()))
	listens := func(name string) func() bool {
		t.Helper()
		if _, err := client.Create(t.Context(), sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
		access, err := client.URLs().Invite(t.Context(), name, true)
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(access.URL)
		if err != nil {
			t.Fatal(err)
		}
		return func() bool {
			conn, err := net.Dial("tcp", at.Host)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}
	}
	gone, stays := listens("gone"), listens("stays")
	if err := client.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	next := listens("next")
	for _, c := range []struct {
		name    string
		listens func() bool
		want    bool
	}{{"gone", gone, false}, {"stays", stays, true}, {"next", next, true}} {
		if got := c.listens(); got != c.want {
			t.Errorf("at the address of %s a server listens: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestReverseProxy hands requests on as a reverse proxy does, by names that the host's operator allows, and no others.
func TestReverseProxy(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Token: "secret", URLs: "127.0.0.1:0", AllowHosts: []string{"sprites.example.com"}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	h, b := newHosted(t, host), newBrowser(t)
	h.web(mirror)
	at := h.url()
	for name, want := range map[string]int{
		"box.sprites.example.com": http.StatusOK, "BOX.Sprites.Example.Com.:443": http.StatusOK,
		"none.sprites.example.com": http.StatusNotFound, "sprites.example.com": http.StatusMisdirectedRequest, "a.box.sprites.example.com": http.StatusMisdirectedRequest,
		"box.evil.example": http.StatusMisdirectedRequest, "boxsprites.example.com": http.StatusMisdirectedRequest,
	} {
		if res, body := b.get(at, "Host", name, "Authorization", "Bearer secret"); res.StatusCode != want {
			t.Errorf("Host %s: %d %s, want %d", name, res.StatusCode, body, want)
		}
	}
	for name, want := range map[string]int{
		"sprites.example.com": http.StatusOK, "sprites.example.com:443": http.StatusOK, "evil.example": http.StatusForbidden, "box.sprites.example.com": http.StatusForbidden,
	} {
		if res, body := b.get(h.base+"/v1/sprites", "Host", name, "Authorization", "Bearer secret"); res.StatusCode != want {
			t.Errorf("the API as %s: %d %s, want %d", name, res.StatusCode, body, want)
		}
	}
}

// What the sprite sends comes as it is sent, and a socket stays one.
func TestURLStreams(t *testing.T) {
	h, b := newHosted(t, urlHost(t, t.TempDir())), newBrowser(t)
	h.web(`while(my $l=<$c>){ last if $l=~/^\r?$/ } print $c "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"; $c->flush; sysread($c,my $x,1)`)
	if _, err := h.client.URLs().SetAuth(t.Context(), "box", "public"); err != nil {
		t.Fatal(err)
	}
	res, err := b.client.Get(h.url())
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	res.Body.Close()
	if line != "data: 1\n" || err != nil {
		t.Errorf("an event before the end: %q, %v", line, err)
	}

	h.web(`my $k; while(my $l=<$c>){ $k=$1 if $l=~/^Sec-WebSocket-Key: (\S+)/i; last if $l=~/^\r?$/ } use Digest::SHA qw(sha1_base64); print $c "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ".sha1_base64($k."258EAFA5-E914-47DA-95CA-C5AB0DC85B11")."=\r\n\r\n\x81\x02hi"; $c->flush; sysread($c,my $x,100)`)
	at, err := url.Parse(h.url())
	if err != nil {
		t.Fatal(err)
	}
	ws, _, err := websocket.Dial(t.Context(), at.String(), &websocket.DialOptions{HTTPClient: b.client})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if _, data, err := ws.Read(t.Context()); string(data) != "hi" || err != nil {
		t.Errorf("through the socket came %q, %v", data, err)
	}
}
