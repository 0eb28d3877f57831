package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// TestProxyOfTheHost has names that lead to private addresses, to public ones, to both and to none: the proxy of the host is
// asked for public addresses only, and never for a name.
func TestProxyOfTheHost(t *testing.T) {
	proxy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards asked
	var asked []string
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := proxy.Accept()
			if err != nil {
				return
			}
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				mu.Lock()
				asked = append(asked, req.Method+" "+req.RequestURI)
				mu.Unlock()
				status := "200 Connection established"
				if req.RequestURI == "93.184.216.1:443" {
					status = "502 Bad Gateway"
				}
				io.WriteString(conn, "HTTP/1.1 "+status+"\r\n\r\n")
			}
			conn.Close()
		}
	})
	defer func() { proxy.Close(); serving.Wait() }()

	names := map[string][]netip.Addr{}
	for name, addrs := range map[string][]string{
		"public.example": {"93.184.216.34"}, "six.example": {"2606:2800:220:1::1"}, "second.example": {"93.184.216.1", "93.184.216.2"},
		"private.example": {"10.0.0.1"}, "metadata.example": {"169.254.169.254"}, "disguised.example": {"::ffff:127.0.0.1", "64:ff9b::a00:1"},
		"host.example": {"93.184.216.99"}, "both.example": {"192.168.1.1", "93.184.216.34", "127.0.0.1"}, "empty.example": {},
	} {
		names[name] = []netip.Addr{}
		for _, a := range addrs {
			names[name] = append(names[name], netip.MustParseAddr(a))
		}
	}
	g := gateway(Rule{"*.example", Allow, ""})
	g.cfg.Upstream = Upstream{
		Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
			addrs, ok := names[name]
			if !ok {
				return nil, errors.New("no such host")
			}
			return addrs, nil
		},
		Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			t.Errorf("%s was dialled without the proxy", to)
			return nil, errors.New("not through the proxy")
		},
		Local: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("93.184.216.99")} },
		Proxy: func(string, uint16) *url.URL { return &url.URL{Scheme: "http", Host: proxy.Addr().String()} },
	}
	for name, want := range map[string]struct {
		asked []string
		code  Code
	}{
		"public.example":    {asked: []string{"CONNECT 93.184.216.34:443"}},
		"six.example":       {asked: []string{"CONNECT [2606:2800:220:1::1]:443"}},
		"second.example":    {asked: []string{"CONNECT 93.184.216.1:443", "CONNECT 93.184.216.2:443"}},
		"both.example":      {asked: []string{"CONNECT 93.184.216.34:443"}},
		"private.example":   {code: PrivateAddress},
		"metadata.example":  {code: PrivateAddress},
		"disguised.example": {code: PrivateAddress},
		"host.example":      {code: PrivateAddress},
		"nowhere.example":   {code: NoPublicAddress},
		"empty.example":     {code: NoPublicAddress},
	} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		conn, err := g.dialTarget(t.Context(), target{name: name, port: 443})
		if conn != nil {
			conn.Close()
		}
		var no *refusal
		if errors.As(err, &no); no == nil && want.code != "" || no != nil && no.code != want.code {
			t.Errorf("%s: %v, want code %q", name, err, want.code)
		}
		mu.Lock()
		if !slices.Equal(asked, want.asked) {
			t.Errorf("%s: the proxy was asked for %q, want %q", name, asked, want.asked)
		}
		mu.Unlock()
	}
}
