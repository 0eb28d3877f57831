package program

import (
	"time"

	"golang.org/x/time/rate"
)

// Output for which no client waits is read at a bounded rate, by a token bucket: reading it costs the processor time of the
// host, and logging it also its disk, neither of which is counted as the sprite's. The writer has to wait.
const (
	Burst       = 128 << 20 // bytes at once
	UnheardRate = 64 << 20  // bytes a second of a command without clients
	LoggedRate  = 8 << 20   // bytes a second of a service
)

// Pace bounds how fast one stream is read.
type Pace struct{ bucket *rate.Limiter }

// NewPace returns a Pace of so many bytes a second.
func NewPace(bytes int) Pace { return Pace{rate.NewLimiter(rate.Limit(bytes), Burst)} }

// Take counts n bytes, and waits until the next ones may be read or stop is closed.
func (p Pace) Take(n int, stop <-chan struct{}) {
	wait := p.bucket.ReserveN(time.Now(), n).Delay()
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}
