package host

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Where namespaces are refused services run all the same, and the proxy reaches them and nothing else of the machine's.
func TestPlainServices(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.host.confiner.Confined = func() confine.Confinement { return confine.Confinement{Plain: true, Text: "plain process tree (test)"} }
	ctx := t.Context()
	if _, err := w.client.Create(ctx, sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	const server = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1:0") or die; print $s->sockport,"\n"; while(my $c=$s->accept){ print $c "here"; close $c }`
	seen := errors.New("seen")
	var port int
	err := w.client.Services().Put(ctx, "s", sprites.Service{Name: "web", Cmd: "perl", Args: []string{"-e", server}}, sprites.ServiceCall{Duration: time.Minute, OnEvent: func(e sprites.ServiceEvent) error {
		if _, err := fmt.Sscan(e.Data, &port); e.Type == "stdout" && err == nil {
			return seen
		}
		return nil
	}})
	if !errors.Is(err, seen) {
		t.Fatal(err)
	}
	conn, err := w.client.Dial(ctx, "s", "localhost", port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); string(got) != "here" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if conn, err := w.client.Dial(ctx, "s", "127.0.0.1", l.Addr().(*net.TCPAddr).Port); err == nil {
		conn.Close()
		t.Error("the proxy reaches what the machine itself listens on")
	}
	if ports, err := w.client.Ports().List(ctx, "s"); err != nil || len(ports) != 1 || ports[0].Port != port {
		t.Errorf("Ports = %+v, %v, want only %d", ports, err, port)
	}
	if err := w.client.Services().Stop(ctx, "s", "web", time.Minute, sprites.ServiceCall{}); err != nil {
		t.Fatal(err)
	}
	if ports, err := w.client.Ports().List(ctx, "s"); err != nil || len(ports) != 0 {
		t.Errorf("after the stop Ports = %+v, %v", ports, err)
	}
}
