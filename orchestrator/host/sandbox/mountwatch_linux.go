package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// mountWatch notices when this machine's mounts change.
type mountWatch struct{ table int }

// watchMounts opens the table of mounts, which tells each change once: not to Go's poller, then, but to changed.
func watchMounts() (mountWatch, error) {
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return mountWatch{table}, err
}

// hasChanged reports whether anything was mounted or unmounted since the watch began, or whether that cannot be told.
func (w mountWatch) hasChanged() bool {
	fds := []unix.PollFd{{Fd: int32(w.table), Events: unix.POLLPRI}}
	_, err := unix.Poll(fds, 0)
	for errors.Is(err, unix.EINTR) { // by a signal of the runtime's
		_, err = unix.Poll(fds, 0)
	}
	return err != nil || fds[0].Revents != 0
}

func (w mountWatch) Close() error { return unix.Close(w.table) }
