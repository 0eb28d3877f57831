package program

import "testing"

// A stream that ends does not wait for its turn.
func TestPaceEnds(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	close(stop)
	p := NewPace(1)
	p.Take(Burst, stop)
	p.Take(Burst, stop)
}
