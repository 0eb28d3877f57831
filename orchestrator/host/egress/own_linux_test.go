package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestNoSpriteReachesLattice lists ports of this very process, as a careless operator might, and one of another.
func TestNoSpriteReachesLattice(t *testing.T) {
	if os.Getenv("EGRESS_TEST_LISTEN") != "" { // the other process
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("at " + l.Addr().String() + "\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	other := exec.Command(os.Args[0], "-test.run=^TestNoSpriteReachesLattice$")
	other.Env = append(os.Environ(), "EGRESS_TEST_LISTEN=1")
	hold, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { hold.Close(); other.Wait() }()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	theirs := netip.MustParseAddrPort(strings.TrimSpace(strings.TrimPrefix(line, "at "))).Port()

	for _, network := range []string{"tcp4", "tcp6"} {
		l, err := net.Listen(network, map[string]string{"tcp4": "0.0.0.0:0", "tcp6": "[::1]:0"}[network])
		if err != nil {
			t.Logf("%s is not tried: %v", network, err)
			continue
		}
		defer l.Close()
		own := uint16(l.Addr().(*net.TCPAddr).Port)
		g := gateway()
		g.cfg.Upstream, g.cfg.HostPorts = Direct(), []uint16{own, theirs}
		var no *refusal
		if conn, err := g.dialTarget(t.Context(), target{name: HostName, port: own}); !errors.As(err, &no) || no.code != OwnPort {
			t.Errorf("%s: our own port = %v, %v", network, conn, err)
		}
		conn, err := g.dialTarget(t.Context(), target{name: HostName, port: theirs})
		if err != nil {
			t.Errorf("a port of another process: %v", err)
			continue
		}
		conn.Close()
		g.cfg.Upstream.Proxy = func(string, uint16) *url.URL { return &url.URL{Scheme: "http", Host: l.Addr().String()} }
		g.cfg.Upstream.Lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such name") }
		if network == "tcp4" {
			g.cfg.Upstream.Proxy = func(string, uint16) *url.URL {
				return &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(int(own)))}
			}
		}
		if conn, err := g.dialTarget(t.Context(), target{name: "good.example", port: 80}); !errors.As(err, &no) || no.code != OwnPort {
			t.Errorf("%s: a proxy that is ourselves = %v, %v", network, conn, err)
		}
	}
}
