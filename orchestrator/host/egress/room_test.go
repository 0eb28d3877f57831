package egress

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// However few descriptors a host may have, sprites leave it half of them, and one another some.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		descriptors uint64
		all, each   int
	}{
		{0, 4, 1}, {256, 21, 5}, {1024, 85, 21}, {20000, 1666, 256}, {1 << 20, 87381, 256}, {1<<64 - 1, 1398101, 256},
	} {
		r := NewRoom(c.descriptors)
		if cap(r.all) != c.all || r.each != c.each {
			t.Errorf("of %d descriptors: %d connections, %d each; want %d, %d", c.descriptors, cap(r.all), r.each, c.all, c.each)
		}
	}
}

// Two sprites open connections without end. Each gets what is one sprite's, both together what is all's, and the rest is told.
func TestConnectionsWithoutEnd(t *testing.T) {
	room := &Room{all: make(chan struct{}, 3), each: 2}
	carried, more := make(chan net.Conn, 10), make(chan struct{})
	open := func(denials *Denials) (dial func() (net.Conn, error)) {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		g := New(Config{Room: room, Denials: denials, Now: time.Now}, new(Policy))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.acceptConns(ctx, l, func(ctx context.Context, conn *net.TCPConn) {
				carried <- conn
				select {
				case <-more:
				case <-ctx.Done():
				}
				conn.Close()
			})
		}()
		t.Cleanup(func() { cancel(); <-ended })
		return func() (net.Conn, error) {
			conn, err := net.Dial("tcp4", l.Addr().String())
			if err == nil {
				t.Cleanup(func() { conn.Close() })
			}
			return conn, err
		}
	}
	taken := func(conn net.Conn, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		<-carried
	}
	refused := func(conn net.Conn, err error) { // it may be reset before it is known to be there
		t.Helper()
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("one that is too many ends with %v, want it reset", err)
		}
	}
	one, two := NewDenials(time.Now, nil), NewDenials(time.Now, nil)
	first, second := open(one), open(two)
	taken(first())
	taken(first())
	refused(first()) // its own are used up
	taken(second())
	refused(second()) // all are
	more <- struct{}{}
	for _, d := range []*Denials{one, two} {
		if l := d.List(); len(l) != 1 || l[0].Code != TooMany {
			t.Errorf("denied are %+v", l)
		}
	}
}
