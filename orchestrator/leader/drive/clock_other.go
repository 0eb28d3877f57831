//go:build !linux

package drive

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// bootClock goes on in sleep on the systems that are not Linux.
const bootClock = unix.CLOCK_MONOTONIC

// lookAgain bounds how late a timer is noticed that came due while the machine slept: Go's timers stand still then.
const lookAgain = 5 * time.Second

// bootSleep returns nil when d has passed on bootTime, soon after wake if that was in the machine's sleep, and ctx's
// error when that ends first.
func bootSleep(ctx context.Context, d time.Duration) error {
	for end := bootTime() + d; ; {
		left := end - bootTime()
		if left <= 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		t := time.NewTimer(min(left, lookAgain))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}
