package fleet

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/patient"
	"golang.org/x/net/netutil"
)

// TestLimitedAcceptsSoMany holds the bound on a sprite's connections, and that closing ends the wait for a free place.
func TestLimitedAcceptsSoMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	inner, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l := netutil.LimitListener(patient.Listener(inner), 1)
	for range 2 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	accepted := make(chan result)
	accept := func() {
		conn, err := l.Accept()
		accepted <- result{conn, err}
	}
	go accept()
	select {
	case r := <-accepted:
		t.Fatalf("a second connection was accepted beside the first: %v", r)
	default:
	}
	first.Close()
	first.Close() // gives its place back once
	second := <-accepted
	if second.err != nil {
		t.Fatal(second.err)
	}
	go accept()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if r := <-accepted; !errors.Is(r.err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v, want ErrClosed", r.err)
	}
	second.conn.Close()
}
