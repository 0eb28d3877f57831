package cli

import (
	"sync"
	"time"
)

// EndWithin is how long the process may take to end after a signal.
const EndWithin = 20 * time.Second

// Deadline runs a func some time after begin.
type Deadline struct {
	Within time.Duration

	mu     sync.Mutex // guards the fields below
	passed func()     // not nil after begin
	paused int
	timer  *time.Timer // not nil while time runs
}

func (e *Deadline) Begin(passed func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passed = passed
	e.updateTimer()
}

// updateTimer starts the time, or stops it, as the fields say. mu is held.
func (e *Deadline) updateTimer() {
	switch {
	case e.passed == nil:
	case e.paused == 0 && e.timer == nil:
		e.timer = time.AfterFunc(e.Within, e.passed)
	case e.paused > 0 && e.timer != nil:
		e.timer.Stop()
		e.timer = nil
	}
}

// Pause stops the time until resume is called, because signals go to a command in a sprite.
func (e *Deadline) Pause() (resume func()) {
	change := func(by int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.paused += by
		e.updateTimer()
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}
