package host

import (
	"os"
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

// A command that nobody listens to is held to the rate: what it says in a second takes a second, however quick the machine is.
func TestUnheardCommandsArePaced(t *testing.T) {
	s := newSession()
	if s.publish(frame{1, []byte("x")}) {
		t.Error("a session without clients is heard")
	}
	c := newClient(false)
	if !s.attach(c) || !s.publish(frame{1, []byte("x")}) {
		t.Error("a session with a client is not heard")
	}
	c.leave()

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		newSession().pump(1, r, func() {})
	}()
	piece := make([]byte, 1<<20)
	for range (paceBurst + unheardRate) / len(piece) {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	<-ended
	if took := time.Since(began); took < 9*time.Second/10 {
		t.Errorf("what it says beyond its burst in a second is read in %v", took)
	}
}
