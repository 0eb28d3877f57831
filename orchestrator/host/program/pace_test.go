package program

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
	p.Take(1<<30, stop) // who is stopped does not wait
}
