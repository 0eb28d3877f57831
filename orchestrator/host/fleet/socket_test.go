package fleet

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestLimitedAcceptsSoMany holds the bound on a sprite's connections, and that closing ends the wait for a free place.
func TestLimitedAcceptsSoMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	inner, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l := newLimited(inner, 1)
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

func TestBudget(t *testing.T) {
	now := time.Unix(1000, 0)
	b := &budget{burst: 3, every: time.Second, now: func() time.Time { return now }, spare: 3, since: now}
	for _, c := range []struct {
		passes time.Duration
		want   []bool
	}{
		{0, []bool{true, true, true, false}},
		{999 * time.Millisecond, []bool{false}},
		{time.Millisecond, []bool{true, false}},
		{2500 * time.Millisecond, []bool{true, true, false}},
		{500 * time.Millisecond, []bool{true, false}}, // the half second before counts
		{time.Hour, []bool{true, true, true, false}},
	} {
		now = now.Add(c.passes)
		for i, want := range c.want {
			if got := b.Take(); got != want {
				t.Errorf("after %v, the %d. time: %t, want %t", c.passes, i+1, got, want)
			}
		}
	}
}
