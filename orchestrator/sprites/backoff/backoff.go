// Package backoff tells how long a client waits before it sends a request again: as long as the server asks, by After, else
// exponentially, by Pause.
package backoff

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

const firstPause = 100 * time.Millisecond

// Pause returns the pause after an attempt, counted from 1: exponential backoff with jitter of up to a half. A nil jitter is none.
func Pause(attempt int, jitter func() float64) time.Duration {
	d := firstPause << (attempt - 1)
	if jitter != nil {
		d -= time.Duration(jitter() * float64(d/2))
	}
	return d
}

// Wait waits by the clock, until ctx ends.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// After reads how long a server asks to wait: seconds or a date.
func After(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	// Of a number that is too large, ParseInt returns the largest.
	if seconds, err := strconv.ParseInt(text, 10, 64); seconds > 0 && (err == nil || errors.Is(err, strconv.ErrRange)) {
		return Seconds(float64(seconds))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// Seconds returns a duration of so many seconds, the longest one for more than that.
func Seconds(n float64) time.Duration {
	if n >= time.Duration(math.MaxInt64).Seconds() {
		return math.MaxInt64
	}
	return time.Duration(n * float64(time.Second))
}
