package drive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const bootClock = unix.CLOCK_BOOTTIME

// bootSleep returns nil when d has passed on bootTime, on wake if that was in the machine's sleep, and ctx's error when
// that ends first.
func bootSleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	fd, err := unix.TimerfdCreate(bootClock, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make a timer: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "timer")
	defer timer.Close()
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = timer.SetReadDeadline(time.Unix(1, 0)) }) // fails only when it is over
	defer stop()
	if _, err := timer.Read(make([]byte, 8)); errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	} else if err != nil {
		return fmt.Errorf("wait for a timer: %w", err)
	}
	return nil
}
