package program

import (
	"time"
)

// What a sprite says while nobody waits for it the host takes at a pace, beyond a good deal at once: to read it costs the
// host's processor, and to log it also its disk, neither of which counts as the sprite's. Who has to wait is the writer.
const (
	PaceBurst   = 128 << 20 // bytes
	UnheardRate = 64 << 20  // bytes a second of a command without clients
	LoggedRate  = 8 << 20   // bytes a second of a service
)

// pace is used by one goroutine.
type pace struct {
	rate, burst float64 // bytes a second, and at once
	now         func() time.Time

	spare float64 // bytes that may come at once, below zero when they are owed
	since time.Time
}

func NewPace(rate float64) *pace {
	return &pace{rate: rate, burst: PaceBurst, now: time.Now, spare: PaceBurst, since: time.Now()}
}

// owed takes n bytes, and says how long it should be until the next ones.
func (p *pace) owed(n int) time.Duration {
	now := p.now()
	p.spare = min(p.burst, p.spare+now.Sub(p.since).Seconds()*p.rate) - float64(n)
	p.since = now
	return time.Duration(max(0, -p.spare) / p.rate * float64(time.Second))
}

// Take takes n bytes and waits until the next ones are due, or stop is closed.
func (p *pace) Take(n int, stop <-chan struct{}) {
	owed := p.owed(n)
	if owed == 0 {
		return
	}
	timer := time.NewTimer(owed)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}
