package drive

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
)

// WithClocks gives runners the clocks of this machine; driver.Deps says which clock is for which purpose.
func WithClocks(d driver.Deps) driver.Deps {
	start := time.Now()
	d.Now, d.After = time.Now, time.After
	d.Awake = func() time.Duration { return time.Since(start) } // by the clock that stands still in sleep
	d.Boot, d.Sleep = bootTime, bootSleep
	return d
}

// bootTime is the time since the machine was started, its sleep included.
func bootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(bootClock, &t); err != nil {
		return 0 // the clock is there on every system that this is built for
	}
	return time.Duration(t.Nano())
}
