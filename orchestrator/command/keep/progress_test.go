package keep

import (
	"testing"
	"time"
)

// An estimate goes by what was seen, and there is none before that tells anything.
func TestEstimate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		done, rest uint64
		elapsed    time.Duration
		want       string
	}{
		{0, 100, time.Minute, ""}, {50, 50, time.Second, ""}, {100, 0, time.Minute, ""},
		{25, 75, 10 * time.Second, ", about 30s left"}, {99, 1, 10 * time.Second, ", about 1s left"},
	} {
		if got := estimate(tt.done, tt.rest, tt.elapsed); got != tt.want {
			t.Errorf("after %d, with %d to go in %s: %q, want %q", tt.done, tt.rest, tt.elapsed, got, tt.want)
		}
	}
}
