package workspace

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Lock takes the lock of a file. It waits for the holder until ctx ends, and then returns the cause of that. Closing the
// file gives it back. The kernel offers no lock that gives up, hence retries, which widen up to a pause of most.
func Lock(ctx context.Context, f *os.File, most time.Duration) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, most) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
