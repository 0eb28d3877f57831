package backoff

import (
	"math"
	"net/http"
	"testing"
	"time"
)

// TestAfter checks that a time longer than any duration does not overflow to a short one.
func TestAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want time.Duration
	}{
		{"", 0}, {"0", 0}, {"-1", 0}, {"soon", 0}, {"1", time.Second}, {"90", 90 * time.Second}, {"9223372036", 9223372036 * time.Second},
		{"9223372037", math.MaxInt64}, {"18446744074", math.MaxInt64}, {"9223372036854775807", math.MaxInt64}, {"99999999999999999999", math.MaxInt64},
		{"-99999999999999999999", 0}, {"Mon, 02 Jan 2006 15:04:05 GMT", 0},
	} {
		if got := After(http.Header{"Retry-After": {c.text}}); got != c.want {
			t.Errorf("Retry-After: %s is %v, want %v", c.text, got, c.want)
		}
	}
	for _, c := range []struct {
		seconds float64
		want    time.Duration
	}{{0, 0}, {0.5, time.Second / 2}, {1e300, math.MaxInt64}, {9.3e9, math.MaxInt64}} {
		if got := Seconds(c.seconds); got != c.want {
			t.Errorf("Seconds(%v) = %v, want %v", c.seconds, got, c.want)
		}
	}
}
