package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// catchReserved has init outlive the signals that Go's runtime leaves to C libraries. The kernel spares a namespace's first
// process signals without a handler, but not always: one that comes while Go's first thread blocks signals, as it does
// around each fork, ends the box. They get the runtime's own handler, which hands them to [signal.Notify] like all others;
// ignoring them would be inherited by commands.
func catchReserved() error {
	// The kernel's struct sigaction, which is smaller.
	var action [8]uint64
	const handled, maskSize = 35, 8
	if errno := sigaction(handled, nil, &action, maskSize); errno != 0 {
		return fmt.Errorf("read a signal handler: %w", errno)
	}
	for sig := uintptr(32); sig < handled; sig++ {
		if errno := sigaction(sig, &action, nil, maskSize); errno != 0 {
			return fmt.Errorf("catch signal %d: %w", sig, errno)
		}
	}
	return nil
}

func sigaction(sig uintptr, set, old *[8]uint64, maskSize uintptr) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), maskSize, 0, 0)
	return errno
}
