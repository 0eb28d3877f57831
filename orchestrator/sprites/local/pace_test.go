package local

import (
	"testing"
	"time"
)

// Whoever writes without end is held to the rate in the long run; whoever pauses has all of it again.
func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &pace{rate: 100, burst: 1000, now: func() time.Time { return now }, spare: 1000, since: now}
	for _, c := range []struct {
		passes time.Duration
		n      int
		want   time.Duration
	}{
		{0, 600, 0},
		{0, 400, 0},
		{0, 50, 500 * time.Millisecond},
		{500 * time.Millisecond, 50, 500 * time.Millisecond},
		{time.Second, 50, 0},
		{time.Hour, 1000, 0},
		{0, 1, 10 * time.Millisecond},
	} {
		now = now.Add(c.passes)
		if got := p.owed(c.n); got != c.want {
			t.Errorf("after %v and %d bytes: %v, want %v", c.passes, c.n, got, c.want)
		}
	}
	stop := make(chan struct{})
	close(stop)
	p.take(1<<30, stop) // who is stopped does not wait
}

// What a session says is taken at a pace while nobody listens, so it tells whether somebody does.
func TestSessionTellsWhetherItIsHeard(t *testing.T) {
	s := newSession()
	if s.publish(frame{1, []byte("x")}) {
		t.Error("a session without clients is heard")
	}
	c := newClient(false)
	if !s.attach(c) || !s.publish(frame{1, []byte("x")}) {
		t.Error("a session with a client is not heard")
	}
	c.leave()
}
